"""What a partition's log knows of its producers: epochs, sequences, open transactions. A function of the log."""
