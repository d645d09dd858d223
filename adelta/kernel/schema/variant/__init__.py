"""Variants: their binary form, their shredded columns, and their text (Parquet's VariantEncoding.md)."""
