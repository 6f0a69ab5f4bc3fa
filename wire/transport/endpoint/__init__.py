"""The byte-moving end of a connection: sockets, TLS, and what waits to be sent."""
