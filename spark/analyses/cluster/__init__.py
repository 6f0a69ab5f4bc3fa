"""Analyses of brokers, controllers, configs and the metadata log."""
