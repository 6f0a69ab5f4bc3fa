"""One file per API that a broker serves."""
