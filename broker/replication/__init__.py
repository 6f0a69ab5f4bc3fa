"""The following side of replication: fetchers, one for each leader."""
