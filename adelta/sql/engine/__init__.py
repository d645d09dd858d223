"""Queries run by DuckDB over adelta's scans."""
