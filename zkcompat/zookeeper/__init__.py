"""ZooKeeper itself: sessions for trio, login, ACLs, and a server of our own. Only here kazoo is known."""
