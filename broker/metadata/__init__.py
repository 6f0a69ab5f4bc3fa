"""What this broker makes of the cluster's metadata: the newest image, and questions about it."""
