"""Third-party clients with our local cluster: one adapter for each client, and one matrix of tests."""
