"""TLS: contexts, stores of keys and certificates."""
