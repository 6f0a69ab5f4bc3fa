"""What a broker stores on: log directories, and how durable they are."""
