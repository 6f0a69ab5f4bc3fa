"""One pass through a metadata log: batches, decoded records, and folds that make rows."""
