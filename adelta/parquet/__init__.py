"""Parquet over the storage port. Nothing here knows of Delta."""
