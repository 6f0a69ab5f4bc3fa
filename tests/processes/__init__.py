"""Real processes of ours: killed, frozen, stopped and started again, and the command line end to end."""
