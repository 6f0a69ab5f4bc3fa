"""What brokers and controllers answer alike: authorization, configurations, features."""
