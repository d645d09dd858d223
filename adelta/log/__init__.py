"""`_delta_log` over the storage port: listing, reading, replaying and writing."""
