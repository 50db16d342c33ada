"""Kafka, as the job reads it: the cluster and its refusals, the offsets of topics, and ranges of records."""
