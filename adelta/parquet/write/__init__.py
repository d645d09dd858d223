"""Arrow tables into Parquet objects."""
