"""Dispatch: from the bytes of a request to the bytes of its response."""
