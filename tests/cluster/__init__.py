"""The only harness of clusters. There are two ways to start a complete cluster, with a similar interface:

- In this process, controllers and brokers over real sockets and disks: `tests.cluster.in_process`.

      async with cluster(tmp_path, controllers=3, brokers=1, num_partitions="3") as running:
          async with connected_to(running.brokers[11]) as connection: ...

  Without brokers (`brokers=0`) a test sends a broker's requests itself: `running.scripted_broker(connection, 1)`.
- As processes, by the commands of a user: `tests.cluster.processes`. Use it for signals, kills, the command line, and
  other clients.

      with LocalCluster(tmp_path) as cluster: ...

  To run one command: `trimaran("topics", "list", ...)` there. It is forked, see `tests.cluster.commands`.

Tests that need less than a cluster use one part of it; the other parts are given or absent:

- `tests.cluster.data_side`: a broker's partitions on a real directory; the image is given, and there is no controller.
- `tests.cluster.quorum_nodes`: Raft nodes and their log over sockets, without a controller.
- No node: a decision function of an image (`tests/quorum/controller/states.py`), the Raft core in a transcript.

Requests to a node: `broker_client.py`, `controller_client.py` and `node_client.py` beside the tests of handlers.
`tests/simulation` runs everything in simulated time.
"""
