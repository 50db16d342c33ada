"""Records in JSON; also in envelopes of Debezium."""
