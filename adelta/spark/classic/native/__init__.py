"""Reads by Spark's own Parquet scan, over files that adelta plans (classic sessions)."""
