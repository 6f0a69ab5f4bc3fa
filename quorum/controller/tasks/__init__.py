"""Tasks of a controller that no request triggers."""
