"""Errors for people, in three lines: what happened, why, and what to do."""
