"""Trio shells of the protocol: connections, dispatch, client."""
