"""The transaction coordinator: the producer of each transactional id, and the end of its transactions."""
