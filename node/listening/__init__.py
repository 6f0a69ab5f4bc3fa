"""The sockets on which a node listens, and the addresses of peers."""
