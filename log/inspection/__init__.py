"""Directories that another process writes, read and verified: never written, never trusted."""
