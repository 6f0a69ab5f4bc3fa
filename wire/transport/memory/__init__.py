"""Memory of connections and of responses that grow while they are made."""
