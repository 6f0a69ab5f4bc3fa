import pytest

from tests.broker.harness import open_harness


@pytest.fixture
def harness(tmp_path):
    return open_harness(tmp_path)
