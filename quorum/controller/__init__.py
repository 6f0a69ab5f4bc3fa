"""The controller: decide by generating records, change by replaying them."""
