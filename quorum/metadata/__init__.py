"""The metadata image, and the deltas that change it."""
