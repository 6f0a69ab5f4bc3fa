"""What Produce needs beyond a partition: validation of batches, producer ids."""
