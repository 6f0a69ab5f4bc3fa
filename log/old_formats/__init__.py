"""Message sets of v0 and v1: read, written, and converted to batches of v2 and back."""
