"""The sockets that a node listens on, and the addresses of peers."""
