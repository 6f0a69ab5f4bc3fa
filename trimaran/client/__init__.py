"""The client of a cluster: connecting, positions, reading, producing. Commands and fixtures use it."""

TIMEOUT_SECONDS = 20.0  # the timeout of a request with all retries, unless a command sets another
