"""Columns that are null in nearly all rows, read without Arrow."""
