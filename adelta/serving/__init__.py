"""What a service over HTTP stands on: its socket with TLS, its connections, and rates."""
