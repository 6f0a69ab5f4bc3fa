"""The stages of a Produce request, in the order of `broker/handlers/produce.py`, and the allocation of producer ids."""
