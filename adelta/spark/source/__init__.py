"""The Python data source ``adelta``: its readers, writers and streams."""
