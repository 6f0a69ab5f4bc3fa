"""Logs and metadata on disk as rows for people and scripts."""
