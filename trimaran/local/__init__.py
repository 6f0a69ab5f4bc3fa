"""The local cluster: a supervisor that forks its nodes, and the code that controls it."""
