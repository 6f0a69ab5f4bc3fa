"""Reading and verification of directories that another process writes: never written, never trusted."""
