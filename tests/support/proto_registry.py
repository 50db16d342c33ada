"""Records of Protobuf as Google's library writes them, by schemas as texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from endmark.schemas.proto_compiler import compile_schema

PUNCTUATION = (Path(__file__).parents[2] / "schemas" / "punctuation.v1.proto").read_text()


@lru_cache
def _pool(schema: str) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_schema(schema)).file:
        pool.Add(file)
    return pool


def message(schema: str, name: str) -> Any:
    """Return the class of a message of a schema, given its full name."""
    return message_factory.GetMessageClass(_pool(schema).FindMessageTypeByName(name))


def encoded(schema: str, name: str, value: Mapping[str, Any]) -> bytes:
    """Return a message without a frame, given its fields as Protobuf's JSON."""
    found: bytes = json_format.ParseDict(dict(value), message(schema, name)()).SerializeToString()
    return found


def framed(number: int, value: bytes, *indexes: int) -> bytes:
    """Return a message in Confluent's framing; without indexes, it is the first of its file."""
    if not indexes:
        return b"\0" + number.to_bytes(4, "big", signed=True) + b"\0" + value
    written = bytes([2 * len(indexes), *(2 * index for index in indexes)])
    return b"\0" + number.to_bytes(4, "big", signed=True) + written + value


def punctuation(patterns: Mapping[str, Any]) -> bytes:
    """Return a punctuation, without a frame."""
    return encoded(PUNCTUATION, "endmark.Punctuation", {"punctuation": json.dumps(patterns)})
