"""The newest metadata image, and what the broker derives from it."""
