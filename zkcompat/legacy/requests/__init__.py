"""One file for each kind of znode that an old tool writes: returns the requests to the quorum that obey it. Pure."""
