"""Listeners: accepting, quotas of connections, idle ones, shutdown."""
