"""What a page or a plot shows of a table, as small values, however many files the table has."""
