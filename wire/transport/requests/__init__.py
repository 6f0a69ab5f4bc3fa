"""The interface between the transport and handlers: what a handler declares, and what it is given."""
