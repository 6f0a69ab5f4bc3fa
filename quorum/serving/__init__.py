"""The part of serving that brokers and controllers share: authorization, configurations, features, some handlers."""
