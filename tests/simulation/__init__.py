"""The code that ships, in a world whose time, order, chance and store a test decides."""
