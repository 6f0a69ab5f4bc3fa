from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from trimaran.local.formatting import format_cluster
from trimaran.local.layout import FREE_PORTS, FreePorts, escaped, plan_cluster, properties_of
from trimaran.quorum.formatting.storage import inspect_directories
from trimaran.quorum.raft.types import ReplicaKey
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import PropertySetting, read_file


def plan(tmp_path, **changes):
    with FreePorts() as ports:
        wanted = {
            "controllers": 3,
            "brokers": 3,
            "zookeeper": True,
            "ports": ports,
            "settings": {},
        } | changes
        return plan_cluster(tmp_path, "cluster-id", **wanted)


def test_controllers_count_from_1_and_brokers_from_11(tmp_path):
    names = [node.name for node in plan(tmp_path).nodes]
    assert names == [
        "controller-1",
        "controller-2",
        "controller-3",
        "broker-11",
        "broker-12",
        "broker-13",
        "zookeeper",
        "mirror",
    ]


def test_fixed_ports_step_by_a_thousand(tmp_path):
    found = plan(tmp_path, ports=None)
    assert [n.port for n in found.nodes] == [9093, 10093, 11093, 9092, 10092, 11092, 2181, None]


def test_free_ports_are_distinct_and_not_ephemeral():
    with FreePorts() as free:
        ports = list(islice(free, 50))
        assert len(set(ports)) == 50
        assert all(port in FREE_PORTS for port in ports)


def test_reserved_port_is_free_after_its_block(monkeypatch):
    with FreePorts() as ended:
        free = next(ended)
    with FreePorts() as first, FreePorts() as second:
        given = next(first)
        choices = iter([given, free])
        monkeypatch.setattr("random.choice", lambda _: next(choices))
        assert next(second) == free


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_written_value_is_read_back_like_java(tmp_path_factory, value):
    text = escaped(value)
    assert text.isascii()
    path = tmp_path_factory.getbasetemp() / "escaped.properties"
    path.write_text(f"key={text}\n")
    assert read_file(path)["key"].value == value


def test_node_properties_form_a_valid_configuration(tmp_path):
    found = plan(tmp_path, settings={"num.partitions": "7"}, static_quorum=True)
    for node in found.nodes[:6]:
        settings = {
            key: PropertySetting(value, "test") for key, value in properties_of(found, node).items()
        }
        config = parse_config(settings)
        assert config.warnings == {}
        assert config["node.id"] == node.id
        assert config["num.partitions"] == 7
        assert [voter.id for voter in config.voters] == [1, 2, 3]


def test_dynamic_quorum_is_formatted_with_first_voters(tmp_path):
    found = plan(tmp_path)
    format_cluster(found)
    addresses = [node.address for node in found.nodes[:3]]
    voters = set()
    for node in found.nodes[:6]:
        config = parse_config(read_file(node.properties_file))
        assert not config.voters
        assert [f"{host}:{port}" for host, port in config.quorum_bootstrap] == addresses
        inspected = inspect_directories(config)
        (identity,) = inspected.identities.values()
        if node.role == "broker":
            assert inspected.voters is None
            continue
        assert inspected.kraft_version == 1
        assert inspected.voters is not None
        assert ReplicaKey(node.id, identity.directory_id) in inspected.voters
        assert [
            f"{v.endpoints[0].host}:{v.endpoints[0].port}" for v in inspected.voters
        ] == addresses
        voters.add(str(inspected.voters))
    assert len(voters) == 1, "the same set for all"


def test_replication_never_exceeds_number_of_brokers(tmp_path):
    single = plan(tmp_path, controllers=1, brokers=1)
    assert properties_of(single, single.nodes[1])["offsets.topic.replication.factor"] == "1"
