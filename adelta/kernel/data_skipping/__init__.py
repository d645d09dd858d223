"""Data skipping: which files hold no row that a predicate keeps, by partition and statistics."""
