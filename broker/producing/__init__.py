"""The stages of a Produce request, in the order of `broker/handlers/produce.py`. Also producer ids."""
