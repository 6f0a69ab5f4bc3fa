"""Metrics and readiness of a node over HTTP, for Prometheus and supervisors.

Hot paths count in plain integers; only a scrape makes metrics of them. Names are those that Prometheus' JMX exporter
gives with the rules of Strimzi, so dashboards and alerts for Apache Kafka work. Metrics of ours begin with `trimaran_`.
"""
