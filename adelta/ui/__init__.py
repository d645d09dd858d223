"""The page that `adelta ui` serves."""
