"""Sessions that know adelta: registering them, making them, and their streams."""
