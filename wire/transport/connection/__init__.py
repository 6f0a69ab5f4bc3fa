"""One connection of a server: the order of its responses, its login and its limits."""
