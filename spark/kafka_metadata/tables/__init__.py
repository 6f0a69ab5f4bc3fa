"""The tables of `kafka_metadata`: a file each, `registry` lists them, `walk` gives them their records."""
