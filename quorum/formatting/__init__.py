"""`storage format`: prepares a node's directories and writes the first snapshot."""
