"""Directories that somebody else writes, read and verified: never written, never trusted."""
