"""OAUTHBEARER without its messages: keys of an identity provider, validation of tokens by these keys, retrieval of
tokens.
"""
