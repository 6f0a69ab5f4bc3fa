"""Tasks of a controller that no request asks for."""
