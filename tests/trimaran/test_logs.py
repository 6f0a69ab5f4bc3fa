import json
import logging

from trimaran.logs import JsonFormatter


def test_a_line_is_one_object_whatever_is_in_it():
    record = logging.LogRecord("broker", logging.INFO, "f", 1, 'a "%s"\nb', ("x",), None)
    line = JsonFormatter(7).format(record)
    assert "\n" not in line
    assert json.loads(line)["event"] == 'a "x"\nb'
    assert json.loads(line)["node_id"] == 7
