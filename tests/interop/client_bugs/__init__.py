"""Published bugs of clients that a fault shows: the table, the programs, and the versions from the registries."""
