"""`./dev chaos --mirror`: faults of the ZooKeeper mirror and of everything around it, one at a time."""
