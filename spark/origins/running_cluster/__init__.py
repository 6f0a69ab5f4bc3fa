"""Logs read from running brokers and controllers."""
