"""The KRaft quorum: consensus, metadata image, controller, and what nodes share."""
