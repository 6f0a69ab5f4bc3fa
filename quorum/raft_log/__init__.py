"""The metadata log and its snapshots as bytes and files, below the Raft core's `LogView`."""
