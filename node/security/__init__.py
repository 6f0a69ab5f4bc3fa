"""TLS and SASL of a node's listeners and its own clients."""
