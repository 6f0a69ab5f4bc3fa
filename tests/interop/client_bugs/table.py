"""The bugs: each needs one plan, and a program that prints one line."""

from __future__ import annotations

from dataclasses import dataclass

SECRET = 'api = "Metadata"\ntopic = "secret"\nerror = "{}"'


@dataclass(frozen=True, slots=True)
class ClientBug:
    """`plan` is a ready plan, or the keys of one rule in TOML. `shown` is what the program prints with the version
    `old`, and `passed` with `mended`; `seen` is for the page.
    """

    issue: str
    client: str
    old: str
    mended: str
    plan: str
    program: str
    shown: str
    passed: str
    seen: str

    @property
    def is_ready_plan(self) -> bool:
        return "=" not in self.plan

    @property
    def link(self) -> str:
        if self.issue.startswith("KAFKA-"):
            return f"https://issues.apache.org/jira/browse/{self.issue}"
        return f"https://github.com/{self.issue.replace('#', '/issues/')}"


BUGS = (
    ClientBug(
        "aio-libs/aiokafka#1115",
        "aiokafka",
        "0.12.0",
        "0.13.0",
        "disk-full",
        "produce_by_aiokafka.py",
        "KafkaStorageError",
        "written at 0",
        "a producer reports the failed disk instead of asking for the new leader",
    ),
    ClientBug(
        "dpkp/kafka-python#2553",
        "kafka-python",
        "2.1.1",
        "2.1.2",
        "leader-epoch-unknown",
        "consume_by_kafka_python.py",
        "AttributeError",
        "read v",
        "a consumer ends with an AttributeError",
    ),
    ClientBug(
        "tulios/kafkajs#1346",
        "kafkajs",
        "2.0.2",
        "2.1.0",
        SECRET.format("TOPIC_AUTHORIZATION_FAILED"),
        "second_topic.js",
        "refused",
        "written at 0",
        "after one topic that it may not write, a producer can write no other topic",
    ),
    ClientBug(
        "tulios/kafkajs#665",
        "kafkajs",
        "1.12.0",
        "1.13.0",
        SECRET.format("INVALID_TOPIC_EXCEPTION"),
        "second_topic.js",
        "refused",
        "written at 0",
        "after one topic with a wrong name, a producer can write no other topic",
    ),
    ClientBug(
        "tulios/kafkajs#1155",
        "kafkajs",
        "2.0.0",
        "2.0.1",
        'api = "Fetch"\nerror = "REPLICA_NOT_AVAILABLE"\ntimes = 1',
        "consume.js",
        "stopped: REPLICA_NOT_AVAILABLE",
        "read v",
        "a consumer stops for ever when a replica moves",
    ),
    ClientBug(
        "tulios/kafkajs#950",
        "kafkajs",
        "1.14.0",
        "1.15.0",
        'api = "Produce"\nerror = "NOT_LEADER_OR_FOLLOWER"',
        "count_retries.js",
        "18 requests",
        "3 requests",
        "a producer with two retries sends 18 requests",
    ),
    ClientBug(
        "tulios/kafkajs#1167",
        "kafkajs",
        "1.15.0",
        "1.16.0",
        'api = "Produce"\ndrop = "response"',
        "disconnect.js",
        "still disconnecting",
        "disconnected",
        "`disconnect` never returns if a response is missing",
    ),
    ClientBug(
        "KAFKA-8662",
        "kafka-clients",
        "2.3.0",
        "2.3.1",
        SECRET.format("TOPIC_AUTHORIZATION_FAILED"),
        "SecondTopic.java",
        "TopicAuthorizationException",
        "written at 0",
        "after one topic that it may not write, a producer can write no other topic",
    ),
    ClientBug(
        "KAFKA-14417",
        "kafka-clients",
        "3.3.1",
        "3.3.2",
        'api = "InitProducerId"\nerror = "REQUEST_TIMED_OUT"\ntimes = 1',
        "Idempotent.java",
        "failed",
        "written at 0",
        "an idempotent producer fails for ever when the broker is slow to give it an id",
    ),
    ClientBug(
        "KAFKA-13563",
        "kafka-clients",
        "3.1.0",
        "3.2.1",
        'api = "OffsetCommit"\nsequence = [{}, { error = "NOT_COORDINATOR" }, {}, { error = "NOT_COORDINATOR" }, {}]',
        "Assigned.java",
        "failed",
        "committed",
        "a consumer without subscription commits no more after the coordinator has moved twice",
    ),
    ClientBug(
        "IBM/sarama#2426",
        "github.com/IBM/sarama",
        "1.38.1",
        "1.40.0",
        'api = "FindCoordinator"\nerror = "GROUP_AUTHORIZATION_FAILED"',
        "find_coordinator.go",
        "still tries",
        "refused",
        "`Consume` never returns if the user may not use the group",
    ),
    ClientBug(
        "IBM/sarama#3574",
        "github.com/IBM/sarama",
        "1.46.1",
        "1.50.3",
        'api = "OffsetFetch"\nerror = "COORDINATOR_LOAD_IN_PROGRESS"\ntimes = 1',
        "initial_offset.go",
        "failed",
        "next offset -1",
        "an offset manager fails while the coordinator loads, instead of asking again",
    ),
    ClientBug(
        "twmb/franz-go#1327",
        "github.com/twmb/franz-go",
        "1.21.2",
        "1.21.3",
        "no-leader",
        "produce_by_franz.go",
        "failed",
        "written",
        "a producer fails at once while no partition has a leader",
    ),
)
