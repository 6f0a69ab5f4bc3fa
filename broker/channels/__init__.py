"""Connections from this broker to other nodes, and what travels on them."""
