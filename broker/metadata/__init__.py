"""The newest metadata image, and values that the broker derives from it."""
