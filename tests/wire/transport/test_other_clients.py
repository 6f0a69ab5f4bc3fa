"""Third-party clients on our connections, and how they decode our ApiVersions."""

import pytest
import trio

from tests.wire.transport.cluster import open_cluster

in_thread = trio.to_thread.run_sync


@pytest.mark.slow
async def test_librdkafka_lists_the_cluster():
    pytest.importorskip("confluent_kafka")
    from tests.librdkafka import AdminClient

    async with open_cluster() as cluster:

        def use():
            servers = ",".join(f"{host}:{port}" for host, port in cluster.addresses.values())
            admin = AdminClient({"bootstrap.servers": servers})
            return admin.list_topics(timeout=5)

        found = await in_thread(use)
        assert found.cluster_id == "toy"
        assert {i: (b.host, b.port) for i, b in found.brokers.items()} == cluster.addresses
        assert {name for name, _ in cluster.software} == {"confluent-kafka-python"}


@pytest.mark.slow
async def test_kafka_python_lists_the_cluster():
    kafka = pytest.importorskip("kafka")
    async with open_cluster() as cluster:

        def use():
            host, port = cluster.addresses[1]
            admin = kafka.KafkaAdminClient(bootstrap_servers=f"{host}:{port}")
            try:
                return admin.describe_cluster()
            finally:
                admin.close()

        found = await in_thread(use)
        assert found["cluster_id"] == "toy"
        assert {
            b["broker_id"]: (b["host"], b["port"]) for b in found["brokers"]
        } == cluster.addresses
