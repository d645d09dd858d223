"""One command per file: its name, its arguments, and a coroutine that runs it."""
