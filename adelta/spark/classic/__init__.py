"""Classic sessions: Spark's own Parquet scan and writer, and its catalog, through the JVM."""
