"""The metadata log and its snapshots as files, and what is done about damage to them."""
