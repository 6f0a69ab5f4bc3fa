"""The trio shell of the Raft core: driver, peers, snapshots, vote file."""
