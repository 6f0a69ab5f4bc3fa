"""The texts of `-o kafka` about groups, as Apache Kafka 4.4's tools print them for the same groups."""

from trimaran.cli import kafka_group_text


def test_groups_have_columns_that_grow():
    row = {"topic": "orders", "partition": 2, "committed": 5, "end": 9, "lag": 4}
    of_member = {"member": "me-1", "host": "/127.0.0.1", "client": "me"}
    lines = kafka_group_text.consumer_offsets({"group": "readers"}, [{**row, **of_member}]).split(
        "\n"
    )
    assert lines[0] == ""
    assert lines[1].split() == (
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ]
    )
    assert lines[2] == (
        "readers         orders          2          5               9               4               "
        "me-1            /127.0.0.1      me"
    )
    nobody = dict.fromkeys(of_member)
    longer = kafka_group_text.consumer_offsets(
        {"group": "a-group-of-many-letters"}, [{**row, **nobody}]
    ).split("\n")
    assert longer[2].startswith("a-group-of-many-letters orders          2 ")
    assert longer[2].endswith(" -               -               -")


def test_group_state_has_kafkas_columns():
    group = {
        "group": "readers",
        "coordinator_address": "127.0.0.1:27749",
        "coordinator": 13,
        "assignor": "range",
        "state": "Stable",
        "members": [{}],
    }
    assert kafka_group_text.consumer_state(group) == (
        "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS"
        "\nreaders         127.0.0.1:27749  (13)     range                Stable               1"
    )


SHARE = {
    "group": "workers",
    "type": "share",
    "state": "Stable",
    "coordinator": 11,
    "coordinator_address": "127.0.0.1:27749",
    "members": [
        {"member": "z", "host": "/h", "client": "c", "assignment": {"b": [2, 0], "a": [1]}},
        {"member": "a-member-with-many-letters", "host": "/h", "client": "c", "assignment": {}},
    ],
}


def test_share_group_has_kafkas_columns():
    place = {"topic": "orders", "partition": 0}
    offsets = [
        {**place, "committed": 7, "lag": 3},
        {**place, "partition": 1, "committed": None, "lag": None},
    ]
    assert kafka_group_text.share_offsets(SHARE, offsets) == (
        "\nGROUP           TOPIC           PARTITION  START-OFFSET  LAG"
        "\nworkers         orders          0          7             3"
        "\nworkers         orders          1          -             -"
    )
    assert kafka_group_text.share_offsets(SHARE, []) == (
        "\nShare group 'workers' has no offset information."
    )
    assert kafka_group_text.share_members(SHARE) == (
        "\nGROUP           CONSUMER-ID                HOST            CLIENT-ID       #PARTITIONS  ASSIGNMENT"
        "\nworkers         a-member-with-many-letters /h              c               0            "
        "\nworkers         z                          /h              c               3            a:1;b:0,2"
    )
    assert kafka_group_text.share_state(SHARE) == (
        "\nGROUP           COORDINATOR (ID)          STATE           #MEMBERS"
        "\nworkers         127.0.0.1:27749  (11)     Stable          2"
    )


def test_streams_group_has_kafkas_columns():
    member = {
        "member": "m",
        "process": "p",
        "client": "c",
        "assignment": {"0": [0, 1], "1": [2]},
        "standby": {"1": [0]},
        "warmup": {},
    }
    group = {**SHARE, "group": "app", "assignor": None, "members": [member]}
    rows = [{"topic": "orders", "partition": 0, "lag": 3}]
    assert kafka_group_text.streams_offsets(group, rows) == (
        "GROUP           TOPIC           PARTITION  OFFSET-LAG"
        "\napp             orders          0          3"
    )
    assert kafka_group_text.streams_members(group) == (
        "GROUP           MEMBER          PROCESS         CLIENT-ID       ASSIGNMENTS"
        "\napp             m               p               c               "
        "ACTIVE: 0:[0,1]; 1:[2]; STANDBY: 1:[0]; "
    )
    assert kafka_group_text.streams_state(group) == (
        "GROUP           COORDINATOR (ID)          ASSIGNOR        STATE                     #MEMBERS"
        "\napp             127.0.0.1:27749 (11)                      Stable                    1"
    )


def test_topology_has_a_line_for_each_node():
    def node(kind, name, before=(), after=(), topic=None):
        return {
            "name": name,
            "type": kind,
            "topics": ["s", "t"],
            "topic": topic,
            "stores": ["x", "y"],
            "predecessors": list(before),
            "successors": list(after),
        }

    nodes = [
        node("source", "in", after=["a", "b"]),
        node("processor", "a", ["in"], ["out"]),
        node("sink", "out", ["a"], topic="u"),
        node("sink", "any", ["b"]),
    ]
    store = {"nodes": [node("source", "all", after=["keep"]), node("processor", "keep", ["all"])]}
    described = {"subtopologies": [{"subtopology": "0", "nodes": nodes}], "global_stores": [store]}
    assert kafka_group_text.topology(described) == (
        "Topologies:\n   Sub-topology: 0\n"
        "    Source: in (topics: [s, t])\n      --> a, b\n"
        "    Processor: a (stores: [x, y])\n      --> out\n      <-- in\n"
        "    Sink: out (topic: u)\n      <-- a\n"
        "    Sink: any (topic: null)\n      <-- b\n\n"
        "   Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: all (topics: [s, t])\n      --> keep\n"
        "    Processor: keep (stores: [x, y])\n      --> none\n      <-- all\n\n"
    )


def test_group_lists_have_kafkas_columns():
    rows = [{"group": "g", "state": "Empty"}, {"group": "a-group-of-many-letters", "state": "Dead"}]
    assert kafka_group_text.groups_list(rows) == "g\na-group-of-many-letters"
    assert kafka_group_text.groups_in_states(rows) == (
        "GROUP                   STATE\ng                       Empty\na-group-of-many-letters Dead"
    )
    assert kafka_group_text.groups_in_states(rows[:1]).splitlines()[1] == "g               Empty"
