"""The checks of Produce: the rules for batches of producers."""
