"""Access control of the sidecar: bearer tokens that may read, or read and write, all pipelines or some."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from endmark.errors import ConfigError
from endmark.pipeline.fields import PIPELINE_NAME

_LOG = logging.getLogger(__name__)
_ADDRESSES = 1_000  # the most addresses whose failures are remembered
_WAITING = 50  # refusals delayed at a time; each holds one of the sidecar's connections
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 4.0  # seconds
# Keys in a request's state: the name of its token, for requests that write; and the pipelines that it may
# see, or `None` if it may see all.
CALLER, VISIBLE = "caller", "visible"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORM = (
    "write NAME:read:TOKEN or NAME:write:TOKEN; a TOKEN has 16 letters or more, without blanks, colons and "
    "commas; if it is to expire, write its last day before it, as in NAME:write:2027-12-31:TOKEN; if it is "
    "for some pipelines only, write their names with + between, as in NAME:write@orders+sales:TOKEN"
)
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z0-9._-]{1,60}):(?P<role>read|write)"
    rf"(?:@(?P<pipelines>{PIPELINE_NAME}(?:\+{PIPELINE_NAME})*))?:"
    r"(?:(?P<until>[0-9]{4}-[0-9]{2}-[0-9]{2}):)?(?P<secret>[!-9;-~]{16,200})"
)
# These paths need no token, since they show nothing of a pipeline: the views' own files, the OpenAPI document
# and the liveness probe.
_OPEN_TO_ALL = re.compile(r"/|/pipelines/[^/]*/?|/static/.*|/openapi\.json|/healthz")
_OF_PIPELINE = re.compile(r"/(?:api/pipelines|readyz)/([^/]+)")


@dataclass(frozen=True)
class Token:
    """A caller's token. Only a hash of its secret is kept.

    Args:
        name: the caller's name in logs and audits.
        may_write: whether requests that do more than read are allowed.
        digest: SHA-256 of the secret.
        until: the last day, in UTC, on which the token is good; `None`: it does not expire.
        pipelines: the names of the pipelines that it is for; `None`: all.
    """

    name: str
    may_write: bool
    digest: bytes
    until: date | None = None
    pipelines: frozenset[str] | None = None


def parse_tokens(text: str, where: str) -> tuple[Token, ...]:
    """Parse tokens that stand on lines of their own or between commas; lines that begin with # are skipped.

    Args:
        text: the tokens, each `NAME:ROLE:SECRET` or `NAME:ROLE:LAST_DAY:SECRET`. A role may be limited to
            pipelines, as in `write@orders+sales`.
        where: the origin of the text, for messages.

    Raises:
        ConfigError: a token is malformed, or two have one name. The message shows no secret.
    """
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
    tokens: list[Token] = []
    for number, entry in enumerate(entries, 1):
        found = _TOKEN.fullmatch(entry)
        try:
            until = date.fromisoformat(found["until"]) if found and found["until"] else None
        except ValueError:
            found = None
        if found is None:
            raise ConfigError(f"{where}: token {number} is malformed; {_FORM}")
        if found["name"] in [token.name for token in tokens]:
            raise ConfigError(f"{where}: {found['name']} has two tokens; give each a name of its own")
        pipelines = frozenset(found["pipelines"].split("+")) if found["pipelines"] else None
        may_write = found["role"] == "write"
        tokens.append(Token(found["name"], may_write, _digest(found["secret"]), until, pipelines))
    return tuple(tokens)


def read_tokens(file: Path) -> tuple[Token, ...]:
    """Read the tokens in a file, which has the form that `parse_tokens` takes.

    Raises:
        ConfigError: the file cannot be read, has no token, has a malformed one, or two of one name.
    """
    try:
        tokens = parse_tokens(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tokens cannot be read from {file}: {error}") from error
    if not tokens:
        raise ConfigError(f"{file} has no token; {_FORM}")
    return tokens


class FailedLogins:
    """A counter of requests with an unknown or expired token, which delays further refusals of an address.

    A delay costs the caller time and the sidecar a connection. At most 50 refusals are therefore delayed at a
    time, and others are sent at once. A request with a good token is never delayed, so nobody can lock out
    others.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {"unknown": 0, "expired": 0}
        self._failures: OrderedDict[str, int] = OrderedDict()  # by address; the latest failure is at the end
        self._waiting = 0

    def count(self, address: str, reason: str) -> float:
        """Count a failure of an address, and return by how many seconds to delay its refusal.

        Args:
            address: the client's IP address.
            reason: `unknown` or `expired`.
        """
        self.counts[reason] += 1
        failures = self._failures.pop(address, 0)
        self._failures[address] = failures + 1
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
        return min(_FIRST_WAIT * float(2 ** min(failures, 10)), _LONGEST_WAIT)

    async def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or return at once if 50 others sleep already."""
        if self._waiting < _WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(seconds)
            finally:
                self._waiting -= 1


class Guard:
    """ASGI middleware that checks a request's token before its body is read.

    A request whose method does more than read needs a token that may write. Reads are open to all while every
    token may write. A single token that may only read, even an expired one, makes all reads need a token.
    Paths that show nothing of a pipeline, such as `/healthz`, never need a token. A token that is limited to
    pipelines is refused on the paths of others. Routes that show all pipelines leave out those that `VISIBLE`
    does not name.

    Args:
        app: the application behind the middleware.
        tokens: all tokens, expired ones included.
        failed: counts failed logins and delays their refusals.
    """

    def __init__(self, app: ASGIApp, tokens: Iterable[Token], failed: FailedLogins) -> None:
        self._app = app
        self._tokens = tuple(tokens)
        self._failed = failed
        self._writes = any(token.may_write for token in self._tokens)
        self._reads_open = all(token.may_write for token in self._tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> JSONResponse | None:
        reads = scope["method"] in READS
        if reads and (self._reads_open or _OPEN_TO_ALL.fullmatch(scope["path"])):
            return None
        if not reads and not self._writes:
            return _refused(403, "writes are off; start the sidecar with a token that may write")
        authorization = Headers(scope=scope).get("authorization", "")
        caller = self._caller(authorization)
        if caller is None:
            why = "this needs a token: send the header Authorization: Bearer TOKEN"
            if authorization:
                await self._fail(scope, "unknown")
                why = "this token is not known; send one that the sidecar was started with"
            return _refused(401, why)
        if caller.until is not None and datetime.now(UTC).date() > caller.until:
            await self._fail(scope, "expired", f" ({caller.name})")
            return _refused(401, f"token {caller.name} was good until {caller.until}; ask for a new one")
        if (reason := _why_not(caller, scope["path"], reads)) is not None:
            return _refused(403, f"token {caller.name} {reason}")
        scope.setdefault("state", {}).update({CALLER: caller.name, VISIBLE: caller.pipelines})
        return None

    async def _fail(self, scope: Scope, reason: str, which: str = "") -> None:
        address = (scope.get("client") or ["nowhere"])[0]
        _LOG.warning("failed login from %s: its token is %s%s", address, reason, which)
        await self._failed.wait(self._failed.count(address, reason))

    def _caller(self, authorization: str) -> Token | None:
        scheme, _, secret = authorization.partition(" ")
        digest = _digest(secret.strip())
        # Every token is compared, so that the time does not show which one is nearly right.
        found = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return found[0] if found and scheme.lower() == "bearer" else None


def _why_not(caller: Token, path: str, reads: bool) -> str | None:
    """Return why a known caller may not have a path; `None` if it may."""
    if not reads and not caller.may_write:
        return "may read only; use one that may write"
    wanted = _OF_PIPELINE.match(path)
    if caller.pipelines is not None and wanted is not None and wanted[1] not in caller.pipelines:
        return "is not for this pipeline; use one that is"
    return None


def _refused(status: int, detail: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
