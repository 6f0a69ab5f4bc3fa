"""The traffic of topics: the counter that each metric shows."""

from trimaran.broker.partitions.traffic import Traffic
from trimaran.metrics.topics import topic_metrics

SHOWN = {
    "kafka_server_brokertopicmetrics_bytesin": "bytes_in",
    "kafka_server_brokertopicmetrics_bytesout": "bytes_out",
    "kafka_server_brokertopicmetrics_messagesin": "messages_in",
    "kafka_server_brokertopicmetrics_bytesrejected": "bytes_rejected",
    "kafka_server_brokertopicmetrics_totalproducerequests": "produces",
    "kafka_server_brokertopicmetrics_failedproducerequests": "failed_produces",
    "kafka_server_brokertopicmetrics_totalfetchrequests": "fetches",
    "kafka_server_brokertopicmetrics_failedfetchrequests": "failed_fetches",
    "kafka_server_brokertopicmetrics_replicationbytesin": "replication_bytes_in",
    "kafka_server_brokertopicmetrics_replicationbytesout": "replication_bytes_out",
    "kafka_server_brokertopicmetrics_totalsharefetchrequests": "share_fetches",
    "kafka_server_brokertopicmetrics_failedsharefetchrequests": "failed_share_fetches",
    "kafka_server_brokertopicmetrics_totalshareacknowledgementrequests": "share_acknowledgements",
    "kafka_server_brokertopicmetrics_failedshareacknowledgementrequests": "failed_share_acknowledgements",
}


def test_each_metric_of_topics_shows_its_counter():
    traffic = Traffic()
    for number, name in enumerate(SHOWN.values(), 1):
        setattr(traffic.of("a"), name, number)
        setattr(traffic.of("gone"), name, 100)
    traffic.forget("gone")
    traffic.isr_shrinks, traffic.isr_expands = 50, 60
    found = {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in topic_metrics(traffic)
    }
    of_topics = {
        name: [({"topic": "a"}, number), ({}, 100 + number)] for number, name in enumerate(SHOWN, 1)
    }
    assert found == of_topics | {
        "kafka_server_replicamanager_isrshrinks": [({}, 50)],
        "kafka_server_replicamanager_isrexpands": [({}, 60)],
    }
