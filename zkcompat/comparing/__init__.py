"""Compares the tree with the image: reads it in parts, finds differences, and handles znodes that may not be read."""
