"""Following: one fetcher for each leader, and what it asks."""
