"""Code that both formats share: columns, schemas, bounds, conditions, streams and errors."""
