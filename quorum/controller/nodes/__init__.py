"""Brokers and controllers: registrations, leases, and which of them live."""
