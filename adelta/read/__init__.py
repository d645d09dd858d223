"""Data files → rows of the table."""
