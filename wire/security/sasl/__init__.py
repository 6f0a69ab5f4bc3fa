"""SASL: mechanisms from both sides, and the authentication of a connection."""
