"""What several test folders share: stores that count and fail, and an S3 server."""
