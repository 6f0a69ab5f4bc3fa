"""Marks every test of this folder as `cluster` and `slow`."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith("tests/processes/"):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)
