"""A broker process: its parts put together, its standing with the controller, its start and end."""
