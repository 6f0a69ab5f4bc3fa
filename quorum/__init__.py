"""The KRaft quorum: consensus, the metadata image, the controller, and code that brokers and controllers share."""
