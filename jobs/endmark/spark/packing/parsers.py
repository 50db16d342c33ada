"""Which parser reads a stream's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from endmark.formats.debezium import DebeziumParser
from endmark.formats.json_records import JsonParser
from endmark.formats.xml_records import XmlParser

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.formats.json_records import Parsed
    from endmark.spark.streams import StreamPlan


class Parser(Protocol):
    """Sorts out the records of one stream."""

    def parse(self, values: pa.Array) -> Parsed:
        """Sort out binary `values`; no input raises."""
        ...


def parser_of(stream: StreamPlan) -> Parser:
    match stream.format:
        case "xml":
            return XmlParser(stream.columns, stream.punctuated_on, stream.name, key=stream.on)
        case "debezium":
            return DebeziumParser(
                stream.columns, stream.punctuated_on, stream.name, key=stream.on, updates=stream.updates
            )
    return JsonParser(stream.columns, stream.punctuated_on, stream.name, key=stream.on)
