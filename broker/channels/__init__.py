"""Connections from this broker to other nodes, and the requests sent over them."""
