"""Memory of connections and of responses under construction."""
