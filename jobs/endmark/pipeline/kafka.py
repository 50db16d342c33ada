"""The section `kafka` of a pipeline file: the cluster that the pipeline reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator

from endmark.kafka.cluster import ADDRESSES, KafkaCluster, Login
from endmark.kafka.cluster import Tls as Certificates
from endmark.pipeline.change_rules import AtRestart
from endmark.pipeline.fields import Model

Addresses = Annotated[str, StringConstraints(pattern=ADDRESSES)]

ClientName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class Tls(Model):
    """The certificates of TLS, each a file of PEM.

    `ca` has the authorities that sign the brokers' certificates. Without it, those of the operating system
    count, and those of Java where a job publishes. `certificate` and `key` are our own, if the brokers demand
    some. The key is in PKCS#8, without a password. The host name in a broker's certificate is always
    verified.
    """

    ca: AtRestart[Path | None] = None
    certificate: AtRestart[Path | None] = None
    key: AtRestart[Path | None] = None

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate; name both files")
        return self


# An `http` URL would show the secret on the network, unless it stays on this machine.
TokenUrl = Annotated[
    str, StringConstraints(pattern=r"^(https://|http://(localhost|127\.0\.0\.1|\[::1\])[:/])[!-~]+$")
]
_SENT_AS_IT_IS = ("PLAIN", "OAUTHBEARER")


class Sasl(Model):
    """The user and the password. Write the password as `${KAFKA_PASSWORD}`.

    The variable `KAFKA_PASSWORD` then has the password, or `KAFKA_PASSWORD_FILE` the path of a file with it.
    Under `OAUTHBEARER`, `user` is a client of an identity provider, `password` is the client's secret, and
    `token_url` is where the provider gives the client a token, perhaps for a `scope`.
    """

    mechanism: AtRestart[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]] = "SCRAM-SHA-512"
    user: AtRestart[Annotated[str, Field(min_length=1)]]
    password: AtRestart[Annotated[SecretStr, Field(min_length=1)]]
    token_url: AtRestart[TokenUrl | None] = None
    scope: AtRestart[Annotated[str, Field(min_length=1)] | None] = None

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if (self.mechanism == "OAUTHBEARER") != (self.token_url is not None):
            raise ValueError(
                "mechanism OAUTHBEARER needs a token_url, and no other mechanism has one; give both, or "
                "neither"
            )
        if self.scope is not None and self.token_url is None:
            raise ValueError("a scope is of a token; remove scope, or use OAUTHBEARER")
        return self


class Kafka(Model):
    """The Kafka cluster, for all that reads or writes a topic of the pipeline.

    `bootstrap` has the addresses of some brokers, separated by commas; `--bootstrap` takes their place.
    Brokers log, count and limit us by `client_id`. Where brokers let consumers read from the nearest replica
    (`replica.selector.class`), the tasks of a job read from one in `rack`.
    """

    bootstrap: AtRestart[Addresses]
    tls: AtRestart[Tls | None] = None
    sasl: AtRestart[Sasl | None] = None
    client_id: AtRestart[ClientName | None] = None
    rack: AtRestart[ClientName | None] = None

    @model_validator(mode="after")
    def _check_password(self) -> Self:
        if self.sasl is not None and self.sasl.mechanism in _SENT_AS_IT_IS and self.tls is None:
            raise ValueError(
                f"sasl.mechanism {self.sasl.mechanism} sends a password or token as it is, so it needs TLS; "
                "add `tls: {}`, or use SCRAM-SHA-512"
            )
        return self

    def cluster(self, bootstrap: str | None = None) -> KafkaCluster:
        """Return the cluster, with these addresses in place of the section's if any are given."""
        tls, sasl = self.tls, self.sasl
        return KafkaCluster(
            bootstrap or self.bootstrap,
            None if tls is None else Certificates(tls.ca, tls.certificate, tls.key),
            None
            if sasl is None
            else Login(
                sasl.mechanism, sasl.user, sasl.password.get_secret_value(), sasl.token_url, sasl.scope
            ),
            self.client_id,
            self.rack,
        )
