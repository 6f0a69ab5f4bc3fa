"""The bounds of connections that a node's configuration and its process give."""

import resource

import pytest

from node.listeners import descriptors_end, limits_of
from tests.quorum.config_of import config_of


@pytest.mark.parametrize(
    ("descriptors", "end"),
    [(20_000, 19_744), (1024, 768), (100, 75), (resource.RLIM_INFINITY, 1 << 31)],
)
def test_the_last_descriptors_are_for_files(descriptors, end):
    assert descriptors_end(descriptors) == end


def test_the_bound_is_that_of_this_process():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits_of(config_of()).descriptors_end == descriptors_end(soft)
