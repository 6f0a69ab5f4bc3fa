"""Every client runs transactions; another one reads exactly the committed records."""

from tests.clients.records import Outcome
from tests.clients.test_produce import other_than
from tests.cluster.processes import until

WHAT = "transactions"

OUTCOMES = [
    Outcome([b"a", b"b"], True, 2),
    Outcome([b"never"], False, 3),
    Outcome([b"c"], True, 4),
    Outcome([b"never too"], False, 9),
    Outcome([b"d"], True, 5),
]
COMMITTED = [b"a", b"b", b"c", b"d"]


def test_only_committed_records_are_read(client, clients, topic):
    group, judge = f"group-of-{topic}", other_than(client, clients)
    client.transact(f"id-of-{topic}", topic, OUTCOMES, group)
    found = judge.read_committed(topic, {0: 0}, len(COMMITTED))
    assert [record.value for record in found] == COMMITTED
    until(lambda: judge.committed(group, topic, 1) == [5], "the committed offset")


def test_next_producer_of_id_continues(clients, topic):
    """The next producer is another client, which uses another version of the protocol."""
    for number, producer in enumerate(clients.values()):
        outcome = Outcome([b"%d" % number], True, number + 1)
        producer.transact(f"shared-{topic}", topic, [outcome], "g")
    found = clients["confluent"].read_committed(topic, {0: 0}, 3)
    assert [record.value for record in found] == [b"0", b"1", b"2"]
