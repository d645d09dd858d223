"""Delta's types, their schema strings, and their Arrow counterparts."""
