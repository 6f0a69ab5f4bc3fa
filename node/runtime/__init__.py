"""The runtime that controllers and brokers share: epochs, watermarks, threads."""
