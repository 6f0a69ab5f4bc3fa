"""The report says which records of the metadata log were not understood."""

from tests.spark.kafka_metadata.test_later_kafka import LATER, stored
from tests.spark.kafka_metadata.test_reading import TOPIC_ID, Log, store
from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.spark.analyses.stale_metadata import staleness
from trimaran.wire.records.topics import TopicRecord

OF_METADATA = [ANALYSES["leader_balance"]]


def test_report_names_records_of_a_later_kafka(tmp_path):
    stored(tmp_path, *LATER)
    verdict = staleness(tmp_path, OF_METADATA)
    assert verdict.level == "warn"
    assert verdict.text == (
        "The metadata may be stale: left out 3 records of a later Kafka (type 30 version 0 at offset 8, type 301 version 0 "
        "at offset 9, type 2 version 9 at offset 10); what they change is in no analysis: a later trimaran may know them."
    )


def test_report_of_other_data_is_not_stale(tmp_path):
    stored(tmp_path, *LATER)
    others = [ANALYSES[name] for name in ("compression", "log_matching")]
    assert staleness(tmp_path, others) is None


def test_fully_understood_log_is_not_stale(tmp_path):
    log = Log().lead(1, 1000).write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID))
    store(tmp_path, 1, log.batches)
    assert staleness(tmp_path, OF_METADATA) is None


def test_data_without_metadata_log_is_not_stale(tmp_path):
    assert staleness(tmp_path, OF_METADATA) is None
