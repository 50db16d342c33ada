"""Answers of the sidecar, made from a snapshot or from batches, and the models of their JSON."""
