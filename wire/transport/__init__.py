"""The trio shells of the protocol: connections, dispatch, client."""
