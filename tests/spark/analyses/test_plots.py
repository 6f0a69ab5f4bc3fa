"""Figures of small frames: their contents and layout; no element is cut off or covered."""

import re
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("plotly")

from trimaran.spark.analyses.analysis import ReportVerdict, count_text
from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.spark.analyses.cluster import controller_silence, recovery_waterfall
from trimaran.spark.analyses.partitions import rack_exposure, replication_timeline
from trimaran.spark.analyses.plots import (
    NODES_MAX,
    bars,
    figure,
    heat,
    lines,
    nothing,
    over_time,
    pair_matrix,
    spans,
    table,
)
from trimaran.spark.analyses.records import throughput
from trimaran.spark.analyses.report import figure_html, verdict_list
from trimaran.spark.analyses.running import not_applicable

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_bars_of_equal_names_stay_apart():
    names = ["a", "a", "a (2)", "n" * 249, "n" * 249]
    [drawn] = bars(names, {"n": [1, 2, 3, 4, 5]}, x_title="n").data
    assert len(set(drawn.y)) == 5
    assert drawn.y[0] == "a"
    assert max(map(len, drawn.y)) <= 40
    assert list(drawn.customdata) == names  # the hover text has the whole name


def test_bars_say_how_many_are_left_out():
    drawn = bars(range(142), {"n": range(142)}, x_title="seconds")
    assert list(drawn.data[0].y) == list(map(str, range(40)))
    assert len(drawn.data[0].x) == len(drawn.data[0].customdata) == 40
    assert drawn.layout.xaxis.title.text == "seconds; 40 of 142 shown"
    assert bars(range(40), {"n": range(40)}, x_title="seconds").layout.xaxis.title.text == "seconds"


def test_twenty_lines_differ_and_others_are_counted():
    frame = pd.DataFrame({"ts": [NOON] * 25, "group": range(25), "lag": range(25)})
    drawn = lines(frame, "lag", "group", y_title="n")
    assert [int(trace.name) for trace in drawn.data] == list(range(5, 25))
    assert len({(trace.line.color, trace.line.dash) for trace in drawn.data}) == 20
    assert drawn.layout.xaxis.title.text == "UTC; 20 of 25 shown"
    few = lines(frame[:3], "lag", "group", y_title="n", total=12)
    assert few.layout.xaxis.title.text == "UTC; 3 of 12 shown"


def test_heat_map_says_how_many_rows_lack():
    frame = pd.DataFrame({"ts": [NOON] * 50, "group": range(50), "n": range(1, 51)})
    drawn = heat(frame, "group", "n", title="n", width_ms=1000)
    assert (len(drawn.data[0].z), drawn.layout.xaxis.title.text) == (40, "UTC; 40 of 50 shown")
    assert drawn.data[0].colorbar.dtick is None
    small = heat(frame[:2], "group", "n", title="n", width_ms=1000)
    assert small.data[0].colorbar.dtick == 1  # no half of an event
    assert small.layout.xaxis.title.text == "UTC"


def test_table_says_how_many_rows_are_left_out():
    frame = pd.DataFrame({"a": range(75)})
    [note] = table(frame, {"a": "a"}).layout.annotations
    assert note.text == "60 of 75 shown"
    assert not table(frame[:60], {"a": "a"}).layout.annotations


def test_spans_say_how_many_rows_are_left_out():
    row = {"from": NOON, "to": NOON, "is": "ok"}
    frame = pd.DataFrame([{"who": str(number), **row} for number in range(45)])
    drawn = spans(frame, "who", "from", "to", "is")
    assert (len(drawn.data[0].y), drawn.layout.xaxis.title.text) == (40, "UTC; 40 of 45 shown")


def test_states_of_partitions_are_stacked():
    worst = {"offline": 0, "under_min_isr": 54, "under_replicated": 88}
    row = {"ts": NOON, "bucket_ms": 1000, "worst": worst, "last": {**worst, "under_min_isr": 0}}
    drawn = replication_timeline.plot(pd.DataFrame([row])).data
    assert {trace.stackgroup for trace in drawn} == {"states"}
    assert [sum(values) for values in zip(*(t.y for t in drawn), strict=True)] == [142, 88]


def test_verdicts_are_sorted_and_good_ones_folded():
    given = [("ok", "fine"), ("info", "so"), ("warn", "hm"), ("bad", "no"), ("ok", "well")]
    idle = not_applicable(ANALYSES["throughput"])
    html = verdict_list([*(ReportVerdict(*pair) for pair in given), idle])
    shown, folded = html.split("<details>")
    assert re.findall(r'class="(bad|warn|info|ok)"', shown) == ["bad", "warn", "info"]
    assert "<summary>2 good, 1 not applicable</summary>" in folded
    assert re.findall(r'class="(bad|warn|info|ok)"', folded) == ["ok", "ok", "info"]
    assert "details" not in verdict_list([ReportVerdict("bad", "no")])


def test_cell_begins_at_its_time():
    frame = pd.DataFrame({"ts": [NOON], "group": ["g"], "rebalances": [3]})
    [drawn] = heat(frame, "group", "rebalances", title="n", width_ms=1000).data
    cells = list(drawn.z[0])
    assert len(drawn.x) == len(cells) + 1  # edges
    assert drawn.x[cells.index(3)] == NOON


def test_both_halves_of_throughput_share_an_axis():
    row = {"topic": "t", "ts": NOON, "records": 50, "bytes": 9, "bucket_ms": 1000, "partitions": 9}
    frame = pd.DataFrame(
        [{"kind": "topic", "partition": None, **row}, {"kind": "partition", "partition": 0, **row}]
    )
    figure = throughput.plot(frame)
    line, cells = figure.data
    assert figure.layout.yaxis.title.text == "records/s, mean of 1.0 s"
    assert figure.layout.xaxis2.title.text == "UTC; 1 of 9 partitions shown"
    counts = list(cells.z[0])
    assert len(cells.x) == len(counts) + 1
    assert cells.x[counts.index(50)] == NOON
    assert pd.Timestamp(line.x[list(line.y).index(50)]).tz_convert(UTC) == NOON


def test_each_partition_of_throughput_has_a_label():
    row = {"topic": "t", "ts": NOON, "records": 50, "bytes": 9, "bucket_ms": 1000, "partitions": 40}
    frame = pd.DataFrame([{"kind": "partition", "partition": i, **row} for i in range(40)])
    made = throughput.plot(frame)
    assert list(made.data[0].y) == [f"t-{i}" for i in range(40)]
    margins = made.layout.margin.t + made.layout.margin.b
    low, high = made.layout.yaxis2.domain
    assert (made.layout.height - margins) * (high - low) >= 20 * 40


def test_lines_are_sorted_by_their_numbers():
    frame = pd.DataFrame({"ts": [NOON] * 3, "broker": ["b 10", "b 9", "a"], "n": [1, 2, 3]})
    drawn = lines(frame, "n", "broker", y_title="n")
    assert [trace.name for trace in drawn.data] == ["a", "b 9", "b 10"]


def test_legend_of_stacked_bars_is_not_reversed():
    assert bars(["x"], {"a": [1], "b": [2]}, x_title="n").layout.legend.traceorder == "normal"


def test_racks_have_their_names():
    row = {"kind": "rack", "partitions": 2, "exposed": 1}
    frame = pd.DataFrame([{"name": "1", **row}, {"name": "rack-1", **row}])
    assert list(rack_exposure.plot(frame).data[0].y) == ["rack 1", "rack-1"]


def test_table_cell_is_as_wide_as_its_text():
    frame = pd.DataFrame({"short": ["a"] * 3, "long": ["uncompressed", "100000000000", "n" * 249]})
    [drawn] = table(frame, {"short": "before", "long": "after"}).data
    [narrow, wide] = drawn.columnwidth
    assert narrow >= len("before") + 3
    assert wide >= 36 + 3


def test_table_of_long_names_fits():
    row = {
        "ts": NOON.replace(tzinfo=None),
        "of": "n" * 249,
        "what": "c" * 40,
        "before": "1" * 20,
        "isr": [*range(99)],
    }
    [drawn] = table(pd.DataFrame([row]), {name: name for name in row}).data
    assert sum(drawn.columnwidth) <= 130
    for column, width in zip(drawn.cells["values"], drawn.columnwidth, strict=True):
        assert len(column[0]) + 3 <= width
    assert drawn.cells["values"][0][0] == "2026-01-31 12:00:00"  # times stay whole
    assert drawn.cells["values"][1][0].startswith("nnnnnnn")


def test_causes_are_shown_as_words():
    frame = pd.DataFrame({"ts": [NOON], "cause": ["controlled_shutdown"], "n": [1]})
    [drawn] = over_time(frame, "n", "cause", y_title="n", width_ms=1000).data
    assert drawn.name == "controlled shutdown"


def test_long_legend_leaves_room_for_plot():
    frame = pd.DataFrame({"ts": [NOON] * 12, "type": list("abcdefghijkl"), "n": [1] * 12})
    few = over_time(frame[:3], "n", "type", y_title="n", width_ms=1000)
    many = over_time(frame, "n", "type", y_title="n", width_ms=1000)
    assert many.layout.height >= few.layout.height + 60


def test_silence_without_clock_has_its_own_colour():
    frame = pd.DataFrame(
        {"ms_from": [None, 512, 2048], "intervals": [7, 5, 2], "silences": [0, 0, 2]}
    )
    drawn = {entry.name: entry for entry in controller_silence.plot(frame).data}
    assert list(drawn) == ["up to 1.5 s", "longer than 1.5 s: silence", "no clock tells"]
    assert list(drawn["up to 1.5 s"].y) == ["unknown", "512 ms to 1.0 s", "2.0 s to 4.1 s"]
    assert list(drawn["up to 1.5 s"].x) == [0, 5, 0]
    assert list(drawn["no clock tells"].x) == [7, 0, 0]


def test_spans_of_two_ages_keep_axis_short():
    later = NOON.replace(year=2090)
    times = [NOON, NOON, later]
    frame = pd.DataFrame({"who": ["a", "b", "c"], "from": times, "to": times, "is": ["ok"] * 3})
    drawn = spans(frame, "who", "from", "to", "is")
    assert [list(trace.y) for trace in drawn.data] == [["a", "b"]]
    assert drawn.layout.xaxis.title.text == "UTC; 1 not shown: of a clock years off"


def test_labels_that_distinguish_losses_are_not_shortened():
    losses = [(1001, NOON, "controlled_shutdown"), (1001, NOON.replace(second=9), "fenced")]
    frame = pd.DataFrame(losses, columns=["broker_id", "lost_ts", "cause"])
    for column in ("all_leaders_seconds", "back_seconds", "in_sync_seconds"):
        frame[column] = 1.0
    drawn = recovery_waterfall.plot(frame).data[0]
    assert list(drawn.y) == [
        "broker 1001 shut down 01-31 12:00:00",
        "broker 1001 fenced 01-31 12:00:09",
    ]


def test_message_without_plot_is_shown_as_text():
    """An axis title would be cut off on a narrow page."""
    assert figure_html(nothing("no <b>\n" + "word " * 40)).startswith(
        '<p class="nothing">no &lt;b&gt; word word'
    )
    assert figure_html(table(pd.DataFrame({"a": [1]}), {"a": "a"})).startswith(
        '<div class="table">'
    )
    assert figure_html(bars(["a"], {"n": [1]}, x_title="n")).startswith('<div class="plot">')


def test_markup_in_names_is_text():
    """Plotly turns `<a href>` into a link wherever it shows text: in labels, hover texts and cells of tables."""
    name = '<a href="https://example.com">orders</a>'
    frame = pd.DataFrame({"topic": [name]})
    drawn = [
        bars([name], {name: [1]}, x_title=name, hover=[name]),
        table(frame, {"topic": name}),
        figure(title=name).add_scatter(x=[1], y=[1], customdata=np.array([[name]], dtype=object)),
    ]
    for item in drawn:
        html = figure_html(item)
        assert "orders" in html
        assert "<a href" not in html
        assert "\\u003ca href" not in html


def test_labels_of_both_axes_stay_apart():
    layout = bars(["a"], {"n": [1]}, x_title="n").layout
    assert (layout.xaxis.ticks, layout.yaxis.ticks) == ("outside", "outside")


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "broker", "no broker"),
        (1, "batch", "1 batch"),
        (2000, "batch", "2,000 batches"),
        (2, "epoch", "2 epochs"),
        (2, "key", "2 keys"),
        (2, "retry", "2 retries"),
        (2, "broker loss", "2 broker losses"),
    ],
)
def test_numbers_and_nouns_agree(number, noun, text):
    assert count_text(number, noun) == text


def cells_of(figure):
    [heatmap] = figure.data
    return list(heatmap.x), [list(line) for line in heatmap.z], [list(t) for t in heatmap.text]


def test_pairs_are_on_both_sides_of_the_diagonal():
    names, cells, texts = cells_of(pair_matrix("broker", [(3, 11, 0), (3, 7, 2)]))
    assert names == ["broker 3", "broker 7", "broker 11"]
    assert cells == [[None, 2, 0], [2, None, None], [0, None, None]]
    assert texts[0] == ["", 2, 0]


def test_nodes_beyond_maximum_are_left_out():
    pairs = [(1, other, 1) for other in range(2, NODES_MAX + 5)]
    names, cells, _ = cells_of(pair_matrix("node", pairs))
    assert names[-1] == f"node {NODES_MAX}"
    assert cells[0] == [None] + [1] * (NODES_MAX - 1)
