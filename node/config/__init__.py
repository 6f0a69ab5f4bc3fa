"""The one table of configuration keys."""
