"""User-facing errors, in three lines: the problem, the cause, the remedy."""
