"""What a Delta table means: pure functions over values and Arrow tables, with no waiting and no I/O."""
