"""Files for running nodes elsewhere: a systemd unit, a Compose file, a Kubernetes manifest. Text, no I/O."""
