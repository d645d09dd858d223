"""Options of readers, writers and streams, and the settings of a session that stand for them."""
