"""Files of properties: settings of nodes, and profiles of clusters."""
