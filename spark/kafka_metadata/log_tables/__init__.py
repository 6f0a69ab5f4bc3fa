"""Tables that show the metadata log as it is: records, batches, snapshots, the image."""
