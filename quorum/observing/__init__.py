"""Reading a running quorum from outside."""
