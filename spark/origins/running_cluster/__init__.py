"""Reads logs from running brokers and controllers."""
