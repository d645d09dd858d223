"""SQL text over tables: Delta Spark's statements, read and run by adelta's own operations."""
