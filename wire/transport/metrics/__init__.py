"""Counts, rates and times of requests, and log lines that a hostile peer cannot multiply."""
