"""Damaged and hostile files, refused before they do harm."""
