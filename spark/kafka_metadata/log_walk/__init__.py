"""One pass through a metadata log: batches, decoded records, folds that give rows."""
