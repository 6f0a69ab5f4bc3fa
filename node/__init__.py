"""What brokers and controllers share: configuration, the runtime beneath their loops, listeners, quotas, OAuth."""
