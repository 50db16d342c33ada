"""The sidecar's routes, one module per noun."""
