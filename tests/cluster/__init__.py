"""The one harness of clusters. Two ways to get a whole one, which look alike:

- In this process, controllers and brokers over real sockets and disks: `tests.cluster.in_process`.

      async with cluster(tmp_path, controllers=3, brokers=1, num_partitions="3") as running:
          async with connected_to(running.brokers[11]) as connection: ...

  Without brokers (`brokers=0`) a test sends a broker's requests itself: `running.scripted_broker(connection, 1)`.
- As processes, by the commands of a user: `tests.cluster.processes`. For signals, kills, the command line, other
  clients.

      with LocalCluster(tmp_path) as cluster: ...

  One command alone: `trimaran("topics", "list", ...)` there. It is forked, see `tests.cluster.commands`.

Tests that need less than a cluster use one part of it, with the rest given or absent:

- `tests.cluster.data_side`: a broker's partitions on a real directory; the image is given, no controller is there.
- `tests.cluster.quorum_nodes`: Raft nodes and their log over sockets, without a controller's state on it.
- Nothing at all: a decision function of an image (`tests/quorum/controller/states.py`), the Raft core in a transcript.

Requests to a node: `broker_client.py`, `controller_client.py` and `node_client.py` beside the tests of handlers.
`tests/simulation` runs everything in simulated time.
"""
