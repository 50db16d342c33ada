"""Compiles schemas of Protobuf by Google's compiler, which runs as a process of its own.

A schema comes from a registry that others write to. A fault of the compiler on a hostile schema then ends its
own process alone. Schemas are few, and each is compiled once in a process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.descriptor_pb2 import DescriptorProto

_SECONDS = 60.0  # for one compilation
_MOST_BYTES = 1024 * 1024  # of a schema
_BUILT_IN = Path(__file__).with_name("protos")  # what registries take for known, beside Google's own files
_NAME = "endmark_registered.proto"  # an import named schema.proto was overwritten once
_IMPORTED = re.compile(r"[\w.-]{1,100}(/[\w.-]{1,100}){0,20}", re.ASCII)
_UNREAD = "it sets features.{}, which is not read; leave the feature out, or write the schema in proto3"
_IDLE = re.compile("warning:|^WARNING:|^[IWEF][0-9]{4} ")  # lines that are no errors of a schema


class ProtoSchemaError(ValueError):
    """A text is no schema of Protobuf that can be compiled; the error says why."""


@lru_cache(maxsize=1_000)
def compile_schema(text: str, imports: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return a schema and all that it imports as a serialized `FileDescriptorSet`, whose last file it is.

    Args:
        text: the schema, as in a `.proto` file.
        imports: the name and the text of each file that it imports. Google's own files need not be among
            them, nor those that Kafka Connect imports, which a registry takes for known.

    Raises:
        ProtoSchemaError: the text is no schema.
    """
    if sum(map(len, (text, *(each for _, each in imports)))) > _MOST_BYTES:
        raise ProtoSchemaError(f"it has more than {_MOST_BYTES:,} letters")
    with tempfile.TemporaryDirectory(prefix="endmark-proto-") as directory:
        root, found = Path(directory, "schemas"), Path(directory, "found")
        for name, each in [*imports, (_NAME, text)]:
            if not _IMPORTED.fullmatch(name) or {".", ".."} & set(name.split("/")):
                raise ProtoSchemaError(f"it imports {name[:80]!r}, which is no name of a file below a folder")
            file = root / name
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(each, encoding="utf-8", errors="replace")
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                raise ProtoSchemaError(f"it imports {name!r}, which is a file and a folder") from None
        # The schema's own files come first.
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"-I{_BUILT_IN}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={found}", _NAME],
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                cwd=root,
            )
        except subprocess.TimeoutExpired:
            raise ProtoSchemaError(f"its compilation took more than {_SECONDS:.0f} s") from None
        if done.returncode or not found.exists():
            raise ProtoSchemaError(_first_error(done.stderr.decode("utf-8", "replace")))
        compiled = found.read_bytes()
    _require_plain(compiled)
    return compiled


def _require_plain(compiled: bytes) -> None:
    """Refuse features of editions by which records say something else than those of proto2 and proto3.

    Raises:
        ProtoSchemaError: the schema, or one that it imports, sets such a feature.
    """
    from google.protobuf.descriptor_pb2 import FeatureSet, FileDescriptorSet

    for file in FileDescriptorSet.FromString(compiled).file:
        fields = (field for message in _messages(file.message_type) for field in message.field)
        for options in (file.options, *(field.options for field in fields)):
            if options.features.field_presence == FeatureSet.IMPLICIT:
                raise ProtoSchemaError(_UNREAD.format("field_presence = IMPLICIT"))
            if options.features.message_encoding == FeatureSet.DELIMITED:
                raise ProtoSchemaError(_UNREAD.format("message_encoding = DELIMITED"))


def _messages(declared: Iterable[DescriptorProto]) -> Iterator[DescriptorProto]:
    """Yield messages, and those that are declared within them."""
    for message in declared:
        yield message
        yield from _messages(message.nested_type)


def _first_error(said: str) -> str:
    """Return the first error of the compiler, without the name that the file has here."""
    lines = [line for line in said.splitlines() if line.strip() and not _IDLE.search(line)]
    return lines[0].removeprefix(f"{_NAME}:")[:500] if lines else "the compiler failed and said nothing"
