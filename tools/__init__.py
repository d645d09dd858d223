"""Programs for those who work on adelta: none of them is installed with it."""
