"""Tools over metadata logs and images: sources, the tree, differences, comparison of replicas."""
