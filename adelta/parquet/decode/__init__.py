"""Bytes of column chunks into Arrow tables."""
