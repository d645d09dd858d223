"""The `adelta` command: one file per command in `commands`, what it prints in `render`."""
