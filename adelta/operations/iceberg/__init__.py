"""What a conversion has to know of an Iceberg table: its metadata, its schema and its files."""
