"""Records in Protobuf, read with the schemas of their writers."""
