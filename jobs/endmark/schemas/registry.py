"""A registry of schemas with Confluent's API, and the schemas of the streams that have none.

A schema never changes, so it is asked for once. Each process keeps it in memory, and shares it in a directory
with the other workers of its machine. So a new worker reads on while the registry is away.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

from endmark.errors import ConfigError, UnreachableError
from endmark.private import private_directory
from endmark.schemas.avro_references import inlined

if TYPE_CHECKING:
    from ssl import SSLContext

_PREFIX = "endmark-schemas-"
_SECONDS = 10.0  # for one answer
_MOST_BYTES = 8 * 1024 * 1024  # of an answer
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds
_UNKNOWN_SECONDS = 60.0  # for which an id that the registry does not know is not asked for again
_MOST_UNKNOWN = 10_000
# Reading the authorities of the operating system took 47 ms of a busy core for each request. Records without
# a frame may name an unknown id each. New authorities count a minute later at most.
_TRUST_SECONDS = 60.0
_NOT_FOUND = (40401, 40402, 40403)  # the error codes of an unknown subject, version or id
_MOST_REFERENCES = 100  # to other schemas, of one schema
# OpenSSL's words for an end of a handshake by a server that asks for a certificate, or does not take ours.
_DISTRUSTED = r"ALERT_(?:\w*CERTIFICATE\w*|HANDSHAKE_FAILURE|UNKNOWN_CA|ACCESS_DENIED)"
_PASSES = (408, 429, 500, 502, 503, 504)


class UnknownSchemaError(Exception):
    """The registry has no schema of an id, or has one of another type."""


class RegistryUnreachableError(UnreachableError):
    """The registry did not answer within the deadline. The text has its last error."""


class _AwayError(Exception):
    """The registry does not answer now."""


@dataclass(frozen=True)
class Schema:
    """A schema.

    Args:
        text: its text.
        imports: the name and the text of each file of Protobuf that it imports, and that these import.
    """

    text: str
    imports: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SchemaFile:
    """A schema that all records of a stream have, without an id in the records.

    Args:
        path: the file, for errors.
        text: its text.
    """

    path: str
    text: str
    framed: ClassVar[bool] = False

    @classmethod
    def read(cls, path: Path) -> SchemaFile:
        """Read a file.

        Raises:
            ConfigError: it cannot be read.
        """
        try:
            return cls(str(path), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"schema_file: {path} cannot be read: {error}; name another") from None

    def schema(self, _: int = 0) -> Schema:
        """Return the schema."""
        return Schema(self.text)

    def name(self, _: int) -> str:
        """Return the name of the schema, for errors."""
        return f"schema {self.path}"


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry of schemas. As text, it is its URL.

    Args:
        url: the address of the API, such as `https://registry.example/apis/ccompat/v7`.
        user: the name of the user; `None` without a login.
        password: the user's password, which is never shown.
        ca: the text of a file of PEM with the authorities that may sign the registry's certificate; `None`
            takes those of the operating system.
        patience: the seconds for which a task waits for an answer.
        kind: the type of the schemas, such as `AVRO`, as the registry names it.
        identity: the text of PEM with our own key and certificate; `None` for a registry that asks for none.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)
    patience: float = 60.0
    kind: str = "AVRO"
    identity: str | None = field(default=None, repr=False)
    framed: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.url

    def name(self, number: int) -> str:
        """Return the name of a schema, for errors."""
        return f"schema {number}"

    def schema(self, number: int) -> Schema:
        """Return a schema, given its id, with all that it refers to.

        Raises:
            UnknownSchemaError: the registry has no schema of this id, or one of another type.
            RegistryUnreachableError: the registry did not answer in time.
            ConfigError: the registry refuses us, or its address is wrong.
        """
        schemas, unknown = _cached(self)
        if number not in schemas:
            if (found := unknown.get(number)) is not None and time.monotonic() < found[0]:
                raise UnknownSchemaError(found[1])
            try:
                schemas[number] = self._shared(number)
            except UnknownSchemaError as why:
                if len(unknown) >= _MOST_UNKNOWN:
                    unknown.clear()
                unknown[number] = time.monotonic() + _UNKNOWN_SECONDS, str(why)
                raise
        return schemas[number]

    def _shared(self, number: int) -> Schema:
        """Return a schema from the directory of this machine, or else from the registry."""
        name = f"{hashlib.sha256(self.url.encode()).hexdigest()[:16]}-{self.kind.lower()}-{number}"
        file = shared_directory() / name
        with suppress(OSError):
            text, imports = json.loads(file.read_bytes())
            return Schema(text, tuple(map(tuple, imports)))
        found = self._awaited(number)
        with suppress(OSError):  # the disk may be full
            part = file.with_name(f"{name}.{os.getpid()}")
            part.write_text(json.dumps(astuple(found)))
            part.replace(file)
        return found

    def _awaited(self, number: int) -> Schema:
        until, pause, said = time.monotonic() + self.patience, _FIRST_PAUSE, False
        while True:
            try:
                return self._asked(number, until)
            except _AwayError as why:
                if time.monotonic() + pause >= until:
                    raise RegistryUnreachableError(
                        f"schema registry at {self.url} did not answer for {self.patience:g} s when asked "
                        f"for schema {number}: {why}; when it is back, run the job again from its checkpoint"
                    ) from None
                if not said:
                    said = True
                    now = time.strftime("%H:%M:%S")
                    waits = f"waiting {self.patience:g} s for schema {number} of {self.url}: {why}"
                    print(f"{now} {waits}", file=sys.stderr, flush=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _asked(self, number: int, until: float) -> Schema:
        """Ask once.

        Raises:
            UnknownSchemaError, ConfigError: as in `schema`.
            _AwayError: the registry does not answer now.
        """
        document = self._document(f"/schemas/ids/{number}", f"schema {number}", until)
        if (kind := document.get("schemaType", "AVRO")) != self.kind:
            raise UnknownSchemaError(f"the registry has it as {str(kind)[:20]}, not as {self.kind}")
        text: str = document["schema"]
        others = self._referred(document, until)
        if not others or self.kind != "AVRO":
            return Schema(text, others)
        try:
            return Schema(inlined(text, (other for _, other in others)))
        except (ValueError, RecursionError) as error:
            raise UnknownSchemaError(f"it refers to other schemas, which are not valid: {error}") from None

    def _referred(self, document: dict[str, Any], until: float) -> tuple[tuple[str, str], ...]:
        """Return the name and the text of each schema that an answer refers to, and that these refer to."""
        pending, found = [document], dict[tuple[str, int], tuple[str, str]]()
        while pending:
            references = pending.pop().get("references")
            for each in references if isinstance(references, list) else []:
                match each:
                    case {"name": str() as name, "subject": str() as subject, "version": int() as version}:
                        at = subject, version
                    case _:
                        raise UnknownSchemaError("it refers to a schema without name, subject and version")
                if at not in found:
                    if len(found) == _MOST_REFERENCES:
                        raise UnknownSchemaError(f"it refers to more than {_MOST_REFERENCES} other schemas")
                    path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
                    pending.append(self._document(path, f"version {version} of subject {subject}", until))
                    found[at] = name, pending[-1]["schema"]
        return tuple(found.values())

    def _document(self, path: str, what: str, until: float) -> dict[str, Any]:
        """Return an answer of the registry that has a schema.

        Args:
            path: the path of the request.
            what: what it asks for, for errors.
            until: when to give up, by the monotonic clock.

        Raises:
            UnknownSchemaError, ConfigError: as in `schema`.
            _AwayError: the registry does not answer now.
        """
        status, body = self._get(path, until)
        # Such a schema does not get shorter, so one record by it stopped the job for ever.
        if status == 200 and len(body) > _MOST_BYTES:
            raise UnknownSchemaError(
                f"the answer of the registry at {self.url} for {what} has more than {_MOST_BYTES:,} bytes"
            )
        if status in _PASSES:
            raise _AwayError(f"it answered {status}")
        if status in (401, 403):
            raise ConfigError(
                f"schema registry at {self.url} refuses us by {status} when asked for {what}; "
                "correct registry.user and registry.password, or give the user the right to read schemas"
            )
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            if status == 404 and document.get("error_code") in _NOT_FOUND:
                raise UnknownSchemaError(f"the registry at {self.url} has no {what}")
            if status == 200 and isinstance(document.get("schema"), str):
                return document
        raise ConfigError(
            f"schema registry at {self.url} answered {status} without a schema when asked for {what}; "
            "registry.url is the address of its Confluent-compatible API, such as "
            "https://registry.example/apis/ccompat/v7"
        )

    def _get(self, path: str, until: float) -> tuple[int, bytes]:
        """Return the status and the body of an answer.

        A body that is too long is cut somewhere behind the most bytes that it may have. A redirection is not
        followed, since its target would get the password.

        Raises:
            ConfigError: we do not trust the registry's certificate, or it does not trust ours.
            _AwayError: the registry does not answer now.
        """
        # Spark's daemon imports this module for each job, and most jobs read no Avro.
        import http.client
        import ssl

        parts = urlsplit(self.url)
        seconds = max(0.1, min(_SECONDS, until - time.monotonic()))
        connection = (
            http.client.HTTPSConnection(
                parts.netloc,
                timeout=seconds,
                context=_trust(self.ca, self.identity, int(time.monotonic() // _TRUST_SECONDS)),
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.netloc, timeout=seconds)
        )
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.user is not None:
            login = f"{self.user}:{self.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        ends = time.monotonic() + seconds
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            body = b""
            # Each read waits for `seconds` at most. A registry that sends a byte now and then is cut off.
            while len(body) <= _MOST_BYTES and (part := answer.read1(65_536)):
                body += part
                if time.monotonic() > ends:
                    raise _AwayError(f"its answer took more than {seconds:.0f} s")
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(
                f"schema registry at {self.url} has a certificate that we do not trust: {error}; correct "
                "registry.ca"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, ssl.SSLError) and re.search(_DISTRUSTED, str(error)):
                raise ConfigError(
                    f"schema registry at {self.url} asks for a certificate of ours, or does not trust it: "
                    f"{error}; correct registry.certificate and registry.key"
                ) from None
            raise _AwayError(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        return answer.status, body


@lru_cache(maxsize=2)
def _trust(ca: str | None, identity: str | None, _minute: int) -> SSLContext:
    """Return the authorities that we trust, as they were read in a minute, with our own certificate.

    Args:
        ca: the field `ca` of the registry.
        identity: the field `identity` of the registry.
        _minute: the number of the present minute. Another one makes the cache read the authorities anew.
    """
    import ssl

    context = ssl.create_default_context(cadata=ca)
    if identity is not None:
        # Python takes a key from a file alone. This one is in a private directory, and gone at once.
        with NamedTemporaryFile("w", dir=shared_directory(), prefix="identity-") as file:
            file.write(identity)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@cache
def shared_directory() -> Path:
    """Return the directory of schemas, which this process shares with those that it forks."""
    return private_directory(_PREFIX)


_Cache = tuple[dict[int, Schema], dict[int, tuple[float, str]]]
_caches: dict[SchemaRegistry, _Cache] = {}


def _cached(registry: SchemaRegistry) -> _Cache:
    """Return the schemas that this process has, by id, and the ids that the registry did not know.

    Each of these has the time until which we do not ask again, and the error.
    """
    return _caches.setdefault(registry, ({}, {}))
