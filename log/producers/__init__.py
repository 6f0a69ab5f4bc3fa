"""The producers of a partition's log: epochs, sequences, open transactions. They are a function of the log."""
