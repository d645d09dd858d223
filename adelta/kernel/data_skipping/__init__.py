"""Data skipping: which files can hold no row that a predicate keeps, by partition and statistics."""
