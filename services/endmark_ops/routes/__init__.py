"""The sidecar's routes, in one module for each kind of thing that they are about."""
