"""The trio shell of the Raft core: driver, peers, snapshots, the file of the vote."""
