"""A replica of the metadata quorum: the trio shell around the Raft core."""
