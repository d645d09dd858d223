"""Variants: their binary form, their shredded columns, and their text."""
