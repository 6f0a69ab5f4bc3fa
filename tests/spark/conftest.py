"""One Spark session for all tests of a worker: starting it costs more than most of them."""

import pytest


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark")
    from spark.analyses.running import SETTINGS
    from spark.session import session

    made = session(local_cores=1, app_name="tests")
    for key, value in SETTINGS.items():
        made.conf.set(key, value)
    yield made
    made.stop()
