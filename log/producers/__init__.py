"""The producers of a partition's log: epochs, sequences, open transactions. A function of the log."""
