"""The entry points for the command line and the console: blocking functions with plain results."""
