"""The parts of a broker put together: start, registration, shutdown."""
