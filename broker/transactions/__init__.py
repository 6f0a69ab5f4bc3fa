"""The transaction coordinator: which transactional id has which producer, and how its transactions end."""
