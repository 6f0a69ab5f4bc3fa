"""Configuration keys and their values.

- `…_keys.py`: tables of keys by subject; `server_keys.py` combines a node's keys, `topic_keys.py` has those of topics.
- `config_def.py`: the definition of a key; `key_rows.py`: keys written as rows of text.
- `server.py`: the parsed configuration of one node; `providers.py`: secrets that are stored elsewhere.
- `dynamic_keys.py`, `altered_together.py`, `synonyms.py`, `loggers.py`: alterations while a node runs.
"""
