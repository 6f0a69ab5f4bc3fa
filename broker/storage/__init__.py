"""The log directories of a broker, and the durability of its data."""
