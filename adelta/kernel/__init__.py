"""What a Delta table means: pure functions over values and Arrow tables, without I/O."""
