"""The byte-moving end of a connection: sockets, TLS, and the queue of bytes to send."""
