"""Buffers: frames, encoded messages with places for file pieces, varints, and the bound of a response."""
