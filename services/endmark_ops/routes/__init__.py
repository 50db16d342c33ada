"""The sidecar's routes, in one module for each subject."""
