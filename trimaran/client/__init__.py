"""A cluster as a client sees it: connecting, positions, reading, producing. Commands and fixtures stand on it."""
