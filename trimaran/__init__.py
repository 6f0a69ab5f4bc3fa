"""The top layer: command line, local cluster, node processes."""
