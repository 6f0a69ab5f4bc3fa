"""The stages of a Produce request: resolve, authorize, validate, verify, append, await. Also producer ids."""
