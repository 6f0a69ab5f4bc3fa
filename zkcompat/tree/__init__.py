"""The tree as values: znodes, operations on them, and the transaction that claims the tree. Pure."""
