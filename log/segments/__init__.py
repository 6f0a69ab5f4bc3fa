"""Segments: files of consecutive batches, and their indexes."""
