"""One replicated state machine for controllers and coordinators: decide, append, replay, answer when committed."""
