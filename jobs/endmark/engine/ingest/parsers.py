"""The parser of each wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from endmark.wire.debezium import DebeziumParser
from endmark.wire.json_records import JsonParser
from endmark.wire.xml_records import XmlParser

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.engine.streams import StreamPlan
    from endmark.wire.json_records import Parsed


class Parser(Protocol):
    """Sorts out the records of one stream."""

    def parse(self, values: pa.Array) -> Parsed:
        """Sort out binary `values`; no input raises."""
        ...


def parser_of(stream: StreamPlan) -> Parser:
    match stream.format:
        case "xml":
            return XmlParser(
                stream.columns, stream.punctuated_on, stream.name, key=stream.on, most=stream.max_record
            )
        case "debezium":
            return DebeziumParser(
                stream.columns, stream.punctuated_on, stream.name, key=stream.on, updates=stream.updates
            )
    return JsonParser(stream.columns, stream.punctuated_on, stream.name, key=stream.on)
