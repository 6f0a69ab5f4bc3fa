"""The tree compared with the image: read in parts, with the differences and the znodes that may not be read."""
