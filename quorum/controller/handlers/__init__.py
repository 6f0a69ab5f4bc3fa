"""Request handlers of a controller, one file for each API."""
