"""SASL: both sides of the mechanisms, and the authentication of a connection."""
