"""Brokers and controllers: their registrations, leases and liveness."""
