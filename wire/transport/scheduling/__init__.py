"""Turns of the loop: which connection runs, for how long, and the thread for work that computes."""
