"""The metadata log and its snapshots as files, and the handling of damaged files."""
