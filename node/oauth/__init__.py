"""OAUTHBEARER beyond its messages: keys of an identity provider, tokens checked by them, tokens fetched from it."""
