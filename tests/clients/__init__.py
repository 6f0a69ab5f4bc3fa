"""Third-party clients against a local cluster of ours: one adapter per client, one matrix of tests."""
