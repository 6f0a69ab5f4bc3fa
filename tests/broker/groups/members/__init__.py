"""Members of a consumer group that use third-party clients, each in a process of its own.

    python -m tests.broker.groups.members.<client> BOOTSTRAP GROUP TOPIC CLIENT_ID

prints `PARTITION OFFSET` for every record, in a line of its own; when its stdin is closed it commits what it has read,
leaves the group and ends.
"""
