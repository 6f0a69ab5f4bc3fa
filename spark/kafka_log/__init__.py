"""The format `kafka_log`: options, plan and rows of data logs. Only `source` depends on Spark."""
