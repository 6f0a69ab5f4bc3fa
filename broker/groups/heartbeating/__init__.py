"""The common part of the kinds of groups whose members heartbeat: consumer, share and streams groups.

A file here has the part that the files with its name in the folders of the kinds share. No I/O.
"""
