"""Tests of `trimaran.broker.groups.consumer`."""
