"""Schemas of Avro and Protobuf, from a registry or from a file."""
