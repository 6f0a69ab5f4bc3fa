"""The assembled broker: start, registration, shutdown."""
