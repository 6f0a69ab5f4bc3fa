"""The controller: decisions generate records, and replaying the records changes the state."""
