"""What controllers and brokers share at run time: epochs, watermarks, group commit, threads."""
