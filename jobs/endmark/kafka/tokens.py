"""Tokens of an identity provider, for a login by OAUTHBEARER.

librdkafka and the Java client fetch their tokens themselves. kafka-python asks us for them. A provider gives
a token to a client that knows its secret (RFC 6749, section 4.4).
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from endmark.errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from endmark.kafka.cluster import Login

_SECONDS = 10.0
_USED = 0.8  # of a token's life, as librdkafka and the Java client do
_SHORT = 60.0  # seconds; the life of a token whose provider does not tell it


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Fetches a token when one is needed, and gives it out again for most of its life.

    Args:
        login: a login with `token_url`.
    """

    def __init__(self, login: Login) -> None:
        if login.token_url is None:
            raise ValueError("the login has no URL of tokens")
        self._login, self._url = login, login.token_url
        self._token, self._ends = "", 0.0

    def token(self) -> str:
        """Return a token that has not expired.

        Raises:
            ConfigError: the identity provider refuses the client, or what it answers is no token.
            UnreachableError: the identity provider does not answer.
        """
        if time.monotonic() >= self._ends:
            asked = time.monotonic()
            answer = self._fetched()
            self._token = answer["access_token"]
            self._ends = asked + _USED * _life(answer)
        return self._token

    def _fetched(self) -> dict[str, Any]:
        login = self._login
        named = b64encode(f"{quote_plus(login.user)}:{quote_plus(login.password)}".encode()).decode()
        wanted = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
        request = Request(  # noqa: S310  # the section `kafka` takes no other schemes than HTTP's
            self._url, urlencode(wanted).encode(), {"Authorization": f"Basic {named}"}
        )
        try:
            with urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
                answer = json.load(response)
        except HTTPError as error:
            said = error.read(500).decode(errors="replace")
            raise ConfigError(
                f"{self._url} refuses a token for {login.user}: {error.code} {said}; correct kafka.sasl"
            ) from None
        except (OSError, HTTPException) as error:
            raise UnreachableError(
                f"no identity provider answers at {self._url}: {error}; start it, or correct "
                "kafka.sasl.token_url"
            ) from error
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            raise ConfigError(f"{self._url} answers without a token; correct kafka.sasl.token_url")
        return answer


def _life(answer: dict[str, Any]) -> float:
    """Return how long a token lives, in seconds. Some providers write the number as text."""
    try:
        return float(answer["expires_in"])
    except (KeyError, TypeError, ValueError):
        return _SHORT
