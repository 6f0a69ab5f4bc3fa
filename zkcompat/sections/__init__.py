"""What is mirrored: one `Section` a kind of entity. A new kind of znode is a file here, one in `znodes/`, and a line
in `registry.py`.
"""
