"""Tests of `broker.groups.consumer`."""
