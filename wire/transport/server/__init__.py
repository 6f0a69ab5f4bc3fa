"""Listeners: accepting, quotas of connections, idle connections, shutdown."""
