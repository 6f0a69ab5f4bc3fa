"""The log directories of a broker, and when its data counts as durable."""
