"""Records in Avro, read with the schemas of their writers; also in envelopes of Debezium."""
