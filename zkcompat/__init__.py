"""The ZooKeeper mirror: image and delta to znodes."""
