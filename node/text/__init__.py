"""Text for people, and the memory that text uses."""
