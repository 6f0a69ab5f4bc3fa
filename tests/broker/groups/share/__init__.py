"""Tests of `trimaran.broker.groups.share`."""
