"""Analyses of consumer groups, transactions and producers."""
