"""Files that start nodes elsewhere: a unit of systemd, a compose file, a manifest of Kubernetes. Text, no I/O."""
