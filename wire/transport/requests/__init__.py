"""The interface between the transport and handlers: the declarations of a handler, and its arguments."""
