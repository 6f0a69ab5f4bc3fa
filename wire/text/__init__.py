"""Text for operators, scripts and logs: messages as JSON, named log lines, addresses."""
