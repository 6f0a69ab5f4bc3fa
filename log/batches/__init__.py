"""Record batches of format v2: their header, their records one by one and in bulk, control batches."""
