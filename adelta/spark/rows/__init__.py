"""Changes of rows: MERGE, UPDATE, DELETE and replacing, with what only Spark computes."""
