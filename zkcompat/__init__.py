"""The ZooKeeper mirror: converts images and deltas to znodes."""
