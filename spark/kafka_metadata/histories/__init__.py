"""Histories of brokers, configs, ACLs, features and voters."""
