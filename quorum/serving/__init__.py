"""What brokers and controllers do alike when they serve requests."""
