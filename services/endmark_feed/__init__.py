"""Workloads to publish: those of the example pipelines, with bad records, and the papers' streams."""
