"""Faults on demand over HTTP: rules, observations, topics and faults of nodes, for tests in any language."""
