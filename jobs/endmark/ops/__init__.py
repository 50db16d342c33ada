"""What a job and the sidecar tell each other, and what either may ask of the other."""
