"""How a version of a table is claimed: the port, and one file for each way."""
