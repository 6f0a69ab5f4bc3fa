"""Reads logs from node directories, local or by URL."""
