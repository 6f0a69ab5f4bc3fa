"""Segments: files of batches end to end, and their indexes."""
