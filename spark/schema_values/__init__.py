"""Keys and values of records decoded by schemas, as columns of a DataFrame."""
