"""The front door: command line, local cluster, node processes."""
