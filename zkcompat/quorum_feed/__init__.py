"""The quorum as the mirror sees it: the newest image, the leader, and the changes not yet mirrored."""
