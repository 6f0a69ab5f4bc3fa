"""Scheduling on the event loop: which connection runs and for how long, and the compute thread."""
