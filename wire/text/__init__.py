"""Text for people, scripts and logs: messages as JSON, named log lines, addresses."""
