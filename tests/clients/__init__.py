"""Other people's clients against a local cluster of ours: one adapter a client, one matrix of tests."""
