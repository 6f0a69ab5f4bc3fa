"""Tables of the contents of the metadata log: records, batches, snapshots, the image."""
