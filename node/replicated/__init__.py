"""A replicated state machine for controllers and coordinators: decide, append, replay, respond after the commit."""
