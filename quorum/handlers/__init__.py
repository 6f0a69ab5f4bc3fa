"""Handlers of the quorum's own APIs, served by controllers."""
