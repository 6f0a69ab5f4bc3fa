"""From the bytes of one request to those of its response."""
