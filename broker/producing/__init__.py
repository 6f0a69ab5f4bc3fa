"""A Produce request at work: resolve, authorize, validate, verify, append, await; and producer ids."""
