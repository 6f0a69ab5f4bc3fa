"""The pages, a file each: a question to the cluster, and the plain data that answers it."""
