"""Sessions of Spark Connect: what their clients do where the server knows no Delta tables."""
