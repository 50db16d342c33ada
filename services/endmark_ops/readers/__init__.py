"""Reads of the ops database and of the ends of topics in Kafka."""
