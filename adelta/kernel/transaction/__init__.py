"""How a transaction becomes a commit: what it read, what conflicts with it, and what it writes."""
