"""Who the peer is and who may listen: TLS contexts, SASL exchanges, principals. No sockets, no trio."""
