"""The format `kafka_metadata`: options, plan and tables of the metadata log. Only `source` depends on Spark."""
