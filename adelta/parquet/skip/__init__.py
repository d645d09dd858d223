"""What of a file need not be read: statistics, page indexes and Bloom filters."""
