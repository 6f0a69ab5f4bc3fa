"""One file for each kind of znode that an old tool writes: the requests to the quorum that obey it. Pure."""
