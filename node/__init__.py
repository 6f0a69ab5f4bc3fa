"""Code that brokers and controllers share: configuration, listeners, logins, quotas, the runtime below their event
loops.
"""
