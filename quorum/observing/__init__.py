"""How somebody who is no node reads a running quorum."""
