"""The console of a later Kafka: each form of each page states which records it lacks."""

import pytest

from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.metadata_log import MetadataHistory

UNKNOWN = "1 record of a later Kafka (type 30 version 0 at offset 40)"
FORMS = {
    "text/html": lambda answer: f"The metadata log has {UNKNOWN}," in answer.body,
    "application/json": lambda answer: answer.headers["x-unknown-records"] == UNKNOWN,
    "text/csv": lambda answer: answer.headers["x-unknown-records"] == UNKNOWN,
}


class Later(MetadataHistory):
    unknown = UNKNOWN


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", ["/", "/topics", "/metadata", "/configs"])
def test_each_page_format_names_unknown_records(kafka, form, path):
    cluster = ConsoleCluster(kafka.bootstrap, kafka.controller_bootstrap)
    cluster.log = Later(cluster.controller_client, kafka.controller_bootstrap)
    asked = f"{path}?format=csv" if form == "text/csv" else path
    with console_before(cluster) as browser:
        answer = browser.get(asked, accept=form)
    assert answer.status == 200
    assert FORMS[form](answer)


def test_fully_known_log_adds_no_header(browser):
    assert "x-unknown-records" not in browser.get("/topics", accept="application/json").headers
