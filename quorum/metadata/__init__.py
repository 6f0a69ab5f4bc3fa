"""Image and delta: what the metadata log says."""
