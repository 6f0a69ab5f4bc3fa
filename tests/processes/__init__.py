"""Tests of real node processes that are killed, frozen, stopped and restarted, and of the command line end to end."""
