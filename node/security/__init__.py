"""TLS and SASL of a node's listeners and of its own clients."""
