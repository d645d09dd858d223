"""Tables of a session: by name or path, how they are opened, created and converted."""
