"""Deletion vectors: where they are, how they are framed, and which rows they name."""
