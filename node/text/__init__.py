"""Human-readable text, and the memory that text uses."""
