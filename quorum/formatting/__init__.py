"""`storage format`: a directory is made ready for a node, and the first snapshot written."""
