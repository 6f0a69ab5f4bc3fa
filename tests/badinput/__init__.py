"""Bad input, sent to real nodes: the responses, and the state that must not change. Test names contain the ids of
rules.
"""
