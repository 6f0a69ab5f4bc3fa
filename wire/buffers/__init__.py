"""Bytes in and out: frames, encoded messages with gaps for files, varints, and the bound of a response."""
