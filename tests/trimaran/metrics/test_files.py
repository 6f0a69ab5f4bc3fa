"""The files for Prometheus and Grafana; `tests/interop/test_prometheus.py` loads them into the real ones."""

import json
import re

from trimaran.metrics.alerts import ALERTS, alert_rules
from trimaran.metrics.dashboard import PANELS, dashboard
from trimaran.metrics.families import counter, gauge, times
from trimaran.metrics.scrape_config import scrape_config
from trimaran.metrics.serving import restricted


def test_every_node_is_a_labelled_target():
    text = scrape_config({"broker-11": "127.0.0.1:1", "x": "[::1]:2"}, "c", "ns", ["a b.yml"])
    assert re.findall(r"targets: (.*)", text) == ['["127.0.0.1:1"]', '["[::1]:2"]']
    assert 'kubernetes_pod_name: "c-broker-11"' in text
    assert '  - "a b.yml"' in text


def test_names_with_quotes_stay_strings():
    assert json.dumps('a"b') in scrape_config({'a"b': "h:1"}, "c", "ns", [])


def test_every_alert_has_its_own_rule():
    names = re.findall(r"alert: (\w+)", alert_rules())
    assert names == [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)


def test_panels_do_not_overlap():
    panels = json.loads(dashboard("t"))["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len(PANELS)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_query_selects_metrics_by_sample_names():
    found = [gauge("a", "", 1), counter("b", "", 2), times("c", "", [])]
    assert restricted(found, frozenset()) == found
    for name, place in (("a", 0), ("b_total", 1), ("c", 2), ("c_count", 2)):
        assert restricted(found, frozenset({name, "no_such"})) == [found[place]]
