"""Errors that name why a Kafka cluster refuses us: the certificate, the login, or a right that is missing.

kafka-python tries again whatever the cause is, and in the end says only that it could not connect. The cause
is in its log.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka.errors import AuthorizationError, KafkaError

from endmark.errors import ConfigError
from endmark.kafka.cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.kafka.cluster import ClusterOrAddress

_CONNECTIONS = "kafka.net"
_LOST = re.compile(r"(?:Connection lost|Connection failed|Abort)[:\s(]+(.*?)\)?$")
_LOGIN = re.compile("SaslAuthenticationFailed|UnsupportedSaslMechanism")
_CERTIFICATE = re.compile("SSL|X509")
_NOISE = re.compile(r"^(?:\[Error \d+\] )?(?:\w+Error: )*|\s*\(_ssl\.c:\d+\)?$")
_REQUEST = re.compile(r"Request '(\w+)Request\(")


class _Causes(logging.Handler):
    """Keeps the last cause for which a connection was refused."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().splitlines()[0]
        if record.exc_info is not None and record.exc_info[1] is not None:
            text = f"Connection lost: {record.exc_info[1]}"
        found = _LOST.search(text)
        if found and (_LOGIN.search(found[1]) or _CERTIFICATE.search(found[1])):
            self.last = found[1]


@contextmanager
def refusals_named(kafka: ClusterOrAddress) -> Iterator[None]:
    """Raise a `ConfigError` for an error of kafka-python in the body whose cause is that we are refused.

    Other errors pass. Those are of brokers that are away.

    Args:
        kafka: the cluster that the body connects to.
    """
    causes, log = _Causes(), logging.getLogger(_CONNECTIONS)
    log.addHandler(causes)
    try:
        yield
    except AuthorizationError as error:
        raise ConfigError(_without_right(kafka, error)) from error
    except KafkaError as error:
        if causes.last is None:
            raise
        raise ConfigError(_refused(kafka, causes.last)) from error
    finally:
        log.removeHandler(causes)


def _refused(kafka: ClusterOrAddress, cause: str) -> str:
    why = _NOISE.sub("", cause)
    if _LOGIN.search(cause):
        login = kafka.login if isinstance(kafka, KafkaCluster) else None
        user = "" if login is None else f" of {login.user} by {login.mechanism}"
        return f"Kafka at {kafka} refuses the login{user}: {why}; correct kafka.sasl, or add the user"
    return (
        f"TLS with Kafka at {kafka} fails: {why}; kafka.tls.ca must have signed the brokers' certificates, "
        "which must be valid for the host names in use, and brokers may ask for kafka.tls.certificate"
    )


def _without_right(kafka: ClusterOrAddress, error: AuthorizationError) -> str:
    login = kafka.login if isinstance(kafka, KafkaCluster) else None
    user = "our user" if login is None else login.user
    asked = _REQUEST.search(str(error))
    what = "a request" if asked is None else asked[1]
    return (
        f"Kafka at {kafka} refuses {what} of {user} ({type(error).__name__}); give the user the rights of "
        "docs/secured-kafka.md"
    )
