"""The pages, one file each: a query of the cluster, and its result as plain data."""
