"""What comes in: old tools that administer a cluster by writing to ZooKeeper, obeyed through the quorum.

A file a kind of request says what a znode comes to: ordinary Kafka requests, and what is to be done with the znode
afterwards (`orders.py`). Those are pure. `watching.py` finds what tools have written, `admin.py` sends and tidies.
Nothing here touches an image.
"""
