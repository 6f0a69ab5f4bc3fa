"""The common part of the kinds of groups whose members heartbeat: consumer, share and streams groups.

Each file has the common part of the files of the same name in `consumer`, `share` and `streams`. No I/O.
"""
