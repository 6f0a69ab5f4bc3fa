"""Logs read from node directories, local or by URL."""
