"""Expressions: Spark SQL text or tuples → nodes, bound to a schema, computed over Arrow."""
