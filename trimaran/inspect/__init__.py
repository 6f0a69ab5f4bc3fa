"""Logs and metadata on disk as rows for users and scripts."""
