"""Statements in SQL text that adelta runs in a session."""
