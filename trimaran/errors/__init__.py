"""Errors for people, in three lines: the problem, the cause, the remedy."""
