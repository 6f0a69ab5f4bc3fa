"""Analyses of data logs: sizes, times, keys, compression, retention."""
