"""Reading a running quorum as an observer."""
