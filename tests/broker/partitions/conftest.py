import pytest

from tests.cluster.data_side import open_harness


@pytest.fixture
def harness(tmp_path):
    return open_harness(tmp_path)
