"""Old tools that administer a cluster by writing to ZooKeeper: their requests are sent to the quorum.

`requests/` has one file for each kind of request: it turns a znode into ordinary Kafka requests and the cleanup of the
znode. These files are pure. `scan.py` finds the znodes that tools have written, `admin.py` sends the requests and
cleans up. Nothing here changes an image.
"""
