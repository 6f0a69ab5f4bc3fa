"""Decisions about configs, quotas, policies and feature levels."""
