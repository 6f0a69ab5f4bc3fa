"""The mirrored entities: one `Section` for each kind. Pure."""
