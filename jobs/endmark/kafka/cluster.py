"""A Kafka cluster: the addresses of its brokers, and how our clients log in.

One description serves all of our clients: kafka-python, librdkafka in tasks, and the Java client in Spark.
Certificates are files of PEM. Tasks and the Java client get the text of these, so only the driver needs the
files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from endmark.kafka.tokens import Tokens

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_FETCHES_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MECHANISMS = tuple(_LOGIN_MODULES)
_ADDRESS = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
ADDRESSES = rf"^{_ADDRESS}(,{_ADDRESS})*$"  # the pattern of addresses of brokers


@dataclass(frozen=True)
class Tls:
    """The certificates of TLS. The host name in the broker's certificate is always verified.

    Args:
        ca: the file of the authorities that may sign a broker's certificate; `None` takes those of the
            operating system, and of Java.
        certificate: the file of our own certificate, with those that lead to its authority; `None` if the
            brokers ask for none.
        key: the file of the certificate's private key, without a password, in PKCS#8.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Login:
    """A user and a password, or a client of an identity provider and its secret.

    Args:
        mechanism: one of `MECHANISMS`.
        user: the name of the user, or of the client.
        password: the password or secret, which is never shown.
        token_url: where the identity provider gives tokens, under OAUTHBEARER alone.
        scope: the scope of the token; `None` asks for none.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)
    token_url: str | None = None
    scope: str | None = None


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster. As text, it is the addresses of its brokers.

    Args:
        bootstrap: the addresses of some brokers, `host:port`, separated by commas.
        tls: the certificates; `None` is a connection without TLS.
        login: the user and password; `None` is a connection without them.
        client_id: the name that brokers log, count and limit us by; `None` takes each client's own.
        rack: the rack where tasks run. They read from a replica there, if the brokers allow it.
    """

    bootstrap: str
    tls: Tls | None = None
    login: Login | None = None
    client_id: str | None = None
    rack: str | None = None

    def __str__(self) -> str:
        return self.bootstrap

    @property
    def protocol(self) -> str:
        """Kafka's name for the combination of TLS and login."""
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    def python(self) -> dict[str, Any]:
        """Return the arguments by which kafka-python connects.

        Raises:
            ConfigError: a file of certificates cannot be read, or no token is given to us.
            MissingPartError: the identity provider does not answer.
        """
        found: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.protocol,
        }
        if self.client_id is not None:
            found["client_id"] = self.client_id
        if self.tls is not None:
            files = {
                "ssl_cafile": self.tls.ca,
                "ssl_certfile": self.tls.certificate,
                "ssl_keyfile": self.tls.key,
            }
            for name, file in files.items():
                if file is not None:
                    _read(file)  # the client's own error would not name the file
                    found[name] = str(file)
        if self.login is not None:
            found["sasl_mechanism"] = self.login.mechanism
            if self.login.token_url is None:
                found["sasl_plain_username"] = self.login.user
                found["sasl_plain_password"] = self.login.password
            else:
                found["sasl_oauth_token_provider"] = _tokens(self.login)
        return found

    def spark(self) -> dict[str, str]:
        """Return the options by which Spark's source and sink connect, which are those of the Java client.

        Raises:
            ConfigError: a file of certificates cannot be read.
        """
        found = self._plain()
        if self.tls is not None:
            if self.tls.ca is not None:
                found["ssl.truststore.type"] = "PEM"
                found["ssl.truststore.certificates"] = _read(self.tls.ca)
            if self.tls.certificate is not None and self.tls.key is not None:
                found["ssl.keystore.type"] = "PEM"
                found["ssl.keystore.certificate.chain"] = _read(self.tls.certificate)
                found["ssl.keystore.key"] = _read(self.tls.key)
        if self.login is not None:
            named = {"username": self.login.user, "password": self.login.password}
            if self.login.token_url is not None:
                named = {"clientId": self.login.user, "clientSecret": self.login.password}
                if self.login.scope is not None:
                    named["scope"] = self.login.scope
                found["sasl.oauthbearer.token.endpoint.url"] = self.login.token_url
                found["sasl.login.callback.handler.class"] = _FETCHES_TOKENS
            options = " ".join(f"{name}={_quoted(value)}" for name, value in named.items())
            found["sasl.mechanism"] = self.login.mechanism
            found["sasl.jaas.config"] = f"{_LOGIN_MODULES[self.login.mechanism]} required {options};"
        return {f"kafka.{name}": value for name, value in found.items()}

    def librdkafka(self) -> dict[str, str]:
        """Return the settings by which librdkafka connects. They need no file where they are used.

        Raises:
            ConfigError: a file of certificates cannot be read.
        """
        found = self._plain()
        if self.rack is not None:
            found["client.rack"] = self.rack
        if self.tls is not None:
            if self.tls.ca is not None:
                found["ssl.ca.pem"] = _read(self.tls.ca)
            if self.tls.certificate is not None and self.tls.key is not None:
                found["ssl.certificate.pem"] = _read(self.tls.certificate)
                found["ssl.key.pem"] = _read(self.tls.key)
        if self.login is not None:
            found["sasl.mechanism"] = self.login.mechanism
            if self.login.token_url is None:
                found["sasl.username"] = self.login.user
                found["sasl.password"] = self.login.password
            else:
                found["sasl.oauthbearer.method"] = "oidc"
                found["sasl.oauthbearer.token.endpoint.url"] = self.login.token_url
                found["sasl.oauthbearer.client.id"] = self.login.user
                found["sasl.oauthbearer.client.secret"] = self.login.password
                if self.login.scope is not None:
                    found["sasl.oauthbearer.scope"] = self.login.scope
        return found

    def _plain(self) -> dict[str, str]:
        """Return the settings that librdkafka and the Java client spell alike."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        return found if self.client_id is None else {**found, "client.id": self.client_id}


ClusterOrAddress: TypeAlias = KafkaCluster | str
"""A cluster, or the addresses of the brokers of one that needs neither TLS nor a login."""


def cluster_of(kafka: ClusterOrAddress) -> KafkaCluster:
    """Return the cluster, whichever of the two is given."""
    return kafka if isinstance(kafka, KafkaCluster) else KafkaCluster(kafka)


@lru_cache
def _tokens(login: Login) -> Tokens:
    """Return the tokens of a login, of which one is fetched, so that a refusal is told at once."""
    from endmark.kafka.tokens import Tokens  # tasks do not load kafka-python

    tokens = Tokens(login)
    tokens.token()
    return tokens


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"kafka.tls: {file} cannot be read: {error}; name a file of PEM") from None


def _quoted(text: str) -> str:
    """Write a text in quotes, as Java's configuration of logins has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
