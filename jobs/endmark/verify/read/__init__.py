"""Reads the records that Kafka holds, R, and the tables and topics that the job has written."""
