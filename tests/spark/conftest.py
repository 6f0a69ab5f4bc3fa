"""One Spark session for all tests of a worker: it takes ten seconds to start."""

import pytest


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark")
    from spark.session import session

    made = session(local_cores=1, app_name="tests")
    yield made
    made.stop()
