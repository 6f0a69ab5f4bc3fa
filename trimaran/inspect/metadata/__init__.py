"""Tools over metadata logs and images: where they are read from, as a tree, what differs, whether replicas match."""
