"""Code that brokers and controllers share to serve requests: authorization, configurations, features, some handlers."""
