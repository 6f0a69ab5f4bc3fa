"""What every node shares, broker or controller: configuration, run time, listeners."""
