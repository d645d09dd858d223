"""One command per file: its arguments (`configure`), and a coroutine that runs it (`run`)."""
