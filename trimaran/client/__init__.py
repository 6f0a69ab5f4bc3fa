"""A cluster as a client sees it: connecting, positions, reading, producing. Commands and fixtures stand on it."""

TIMEOUT_SECONDS = 20.0  # of a request with all its repetitions, unless a command says otherwise
