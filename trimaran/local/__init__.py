"""The local cluster: a supervisor that forks its nodes, and what talks to it."""
