"""Clusters for tests: take the first of these that can show what is claimed.

1. No cluster: a decision function of an image (`tests/quorum/controller/states.py`), the Raft core in a transcript.
2. `tests/broker/harness.py`: a broker's data side on a real directory; the image is given, no controller is there.
3. `tests/quorum/cluster.py`: nodes of the quorum and their log over sockets, without a controller's state on it.
4. `tests.cluster.controllers`: whole controllers over sockets in this process; brokers are requests that a test sends.
5. `tests.cluster.in_process`: controllers and brokers in this process. Requests to a broker:
   `tests/broker/handlers/asking.py`.
6. `tests/local_cluster.py`: processes, by the commands of a user. For signals, kills, the command line, other clients.

`tests/simulation` runs the quorum and its controllers under faults in simulated time.
"""
