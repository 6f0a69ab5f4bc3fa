"""Properties files: settings of nodes, and profiles of clusters."""
