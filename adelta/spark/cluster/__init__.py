"""Work that Spark's tasks do for operations of adelta: as jobs, over exchanges, and by rows."""
