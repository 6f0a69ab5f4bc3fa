"""`./dev chaos --mirror`: faults of everything around the ZooKeeper mirror, and of the mirror itself, one at a time."""
