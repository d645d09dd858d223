"""How statements are written: text → the values of `adelta.sql.statements`."""
