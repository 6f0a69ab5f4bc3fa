"""The entrances for the command line and the console: blocking functions with plain results."""
