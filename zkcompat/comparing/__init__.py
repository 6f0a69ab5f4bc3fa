"""The tree compared with the image: read in slices, with the differences and the znodes that may not be read."""
