"""Counts, rates and times of requests, and rate-limited log lines."""
