"""What a Parquet file says of itself, and where its parts are."""
