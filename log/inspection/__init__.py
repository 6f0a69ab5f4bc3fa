"""Reading and verification of directories that another process writes: they are never written, and never trusted."""
