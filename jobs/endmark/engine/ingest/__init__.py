"""Ingest: Kafka records and rows of frames become packed rows, each for the bucket of its key."""
