"""Decisions about ACLs, SCRAM credentials and delegation tokens."""
