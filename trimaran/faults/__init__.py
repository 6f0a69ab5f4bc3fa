"""Faults on demand: rules about requests and responses, the engine that applies them, and the relay that carries them
out, in a node or in a proxy in front of any Kafka.
"""
