"""ZooKeeper itself: sessions for trio, login, ACLs, and a server process. Only this folder uses kazoo."""
