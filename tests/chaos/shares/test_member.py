"""A share member reads to the end of a topic, and all of its observations keep the rules."""

import threading
from collections import Counter

from confluent_kafka import Producer

from tests.chaos.shares.leaders import Leaders
from tests.chaos.shares.member import CHOICES, GROUP, LOCK_SECONDS, TOPIC, ShareMember, choice_of
from tests.chaos.transactions.copying import Task
from tests.cluster.processes import until
from tests.share_history import Delivery, Ending, History, Kind, Place, Settings, judge
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

RECORDS, LIMIT_OF_BROKERS = 200, 5


def test_members_finish_every_record_by_the_rules():
    with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, partitions=1)
        config = AlterableConfig(
            name="share.auto.offset.reset", config_operation=0, value="earliest"
        )
        resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[config])
        with BlockingClient(kafka.bootstrap) as client:
            client.call(
                None, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            )
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(RECORDS):
            producer.produce(TOPIC, value=b"%d" % number)
        producer.flush()
        leaders, history, stop = Leaders(kafka.bootstrap, TOPIC), History(), threading.Event()
        leaders.look()
        (node,) = (node for node in range(100) if leaders.of(node))
        tasks = [Task(lambda: leaders.watch(stop))]
        for name in "ab":
            member = ShareMember(name, 1, leaders, history)
            tasks.append(Task(lambda m=member: m.beat(kafka.bootstrap, stop)))
            tasks.append(Task(lambda m=member: m.read(node, kafka.bootstrap, stop)))
        until(lambda: len({each.place for each in history.deliveries}) == RECORDS, "all", 60)
        stop.set()
        for task in tasks:
            task.join()
        log = {Place(0, number): b"%d" % number for number in range(RECORDS)}
        settings, ending = Settings(LIMIT_OF_BROKERS, LOCK_SECONDS), Ending.at(log, {0: 0})
        rules = Counter(breach.rule.name for breach in judge(history, settings, ending))
        assert rules == {"NOT_ENDED": RECORDS}, "the group has not come to its end"


def test_choice_depends_on_seed_place_and_count():
    deliveries = [Delivery("m", Place(0, offset), 1, 0, 1) for offset in range(2_000)]
    choices = Counter(choice_of(1, delivery) for delivery in deliveries)
    assert set(choices) == set(CHOICES)
    assert choices[Kind.ACCEPT,] > choices[Kind.RELEASE,] > choices[Kind.REJECT,]
    assert choices == Counter(choice_of(1, delivery) for delivery in deliveries)
