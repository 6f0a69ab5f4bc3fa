"""Identity and security of connections: TLS contexts, SASL exchanges, principals. No sockets, no trio."""
