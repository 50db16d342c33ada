"""A Kafka broker that asks for TLS, for a login, a token or a certificate, and for rights."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from endmark.embedded.broker import Broker
from endmark.embedded.ports import LOOPBACK, free_port

_PAGE = Path(__file__).parents[2] / "docs" / "secured-kafka.md"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
# The listener without a login is for the broker itself and for the test, which may do everything there.
_SETTINGS = """
listeners={listeners},SASL_SSL://{host}:{login},SSL://{host}:{certificate}
advertised.listeners={advertised},SASL_SSL://localhost:{login},SSL://localhost:{certificate}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN{tokens}
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}
listener.name.sasl_ssl.plain.sasl.jaas.config={module} required {plain};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""

_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
_TOKENS = """\
,OAUTHBEARER
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={bearer}LoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class={bearer}ValidatorCallbackHandler
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={keys}"""
_BELIEVED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="


def rights_of(part: str, *topics: Iterable[str]) -> list[tuple[ACLOperation, ResourceType, str]]:
    """Read the rights of a part from the page that lists them.

    Args:
        part: the name of the part there.
        topics: the topics of streams, the control topics, and the published topics.
    """
    [rows] = re.findall(r"\| part \|.*?\n\n", _PAGE.read_text(), re.DOTALL)
    found = []
    for line in rows.splitlines()[2:]:
        name, *columns = [cell.strip() for cell in line.strip("|").split("|")]
        if name != part:
            continue
        for named, operations in zip(topics, columns, strict=False):
            for operation in re.findall(r"[A-Z]+", operations):
                found += [(ACLOperation[operation], ResourceType.TOPIC, topic) for topic in named]
    assert found, part
    return found


@dataclass(frozen=True)
class Certificates:
    """The certificates of a test: an authority, and pairs of certificate and key that it has signed.

    Args:
        directory: the directory of all files.
    """

    directory: Path

    def make(self, days: int = 1) -> Certificates:
        """Make the authority, the broker's certificate for `localhost`, and one of a client named `job`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        authority = ["-x509", "-days", "1", "-subj", "/CN=authority", "-out", "ca.pem"]
        self._openssl("req", *_NEW_KEY, "-keyout", "ca.key", *authority)
        for name in ("localhost", "job"):
            self.sign(name, days)
        keystore = [(self.directory / f"localhost.{kind}").read_text() for kind in ("key", "pem")]
        (self.directory / "keystore.pem").write_text("".join(keystore))
        return self

    def sign(self, name: str, days: int) -> None:
        self._openssl(
            "req", *_NEW_KEY, "-keyout", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr"
        )
        (self.directory / "names").write_text(f"subjectAltName=DNS:{name}\n")
        by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
        self._openssl("x509", "-req", "-in", f"{name}.csr", *by, "-days", str(days), "-out", f"{name}.pem")

    def path(self, name: str) -> Path:
        return self.directory / name

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class SecuredBroker(Broker):
    """A broker with two further listeners: one asks for a login over TLS, the other for a certificate.

    Args:
        data_dir: the directory of its topics.
        certificates: its certificates.
        plain: the passwords of users of the mechanism PLAIN. SCRAM has users of its own, see `add_user`.
        keys: the file of an identity provider's keys; `None` takes no tokens.
    """

    def __init__(
        self, data_dir: Path, certificates: Certificates, plain: dict[str, str], keys: Path | None = None
    ) -> None:
        super().__init__(data_dir)
        self._keys = keys
        self._certificates = certificates
        self._plain = plain
        self._login, self._certificate = free_port(), free_port()

    @property
    def with_login(self) -> str:
        return f"localhost:{self._login}"

    @property
    def with_certificate(self) -> str:
        return f"localhost:{self._certificate}"

    @property
    def _java_options(self) -> list[str]:
        believed = [] if self._keys is None else [f"{_BELIEVED}{self._keys.as_uri()}"]
        return [*super()._java_options, *believed]

    def _write_settings(self) -> Path:
        path = super()._write_settings()
        usual = path.read_text()
        [listeners] = re.findall(r"^listeners=(.*)$", usual, re.MULTILINE)
        [advertised] = re.findall(r"^advertised.listeners=(.*)$", usual, re.MULTILINE)
        secured = _SETTINGS.format(
            listeners=listeners,
            advertised=advertised,
            host=LOOPBACK,
            login=self._login,
            certificate=self._certificate,
            keystore=self._certificates.path("keystore.pem"),
            ca=self._certificates.path("ca.pem"),
            scram=_SCRAM,
            tokens="" if self._keys is None else _TOKENS.format(bearer=_BEARER, keys=self._keys.as_uri()),
            module=_PLAIN,
            plain=" ".join(f'user_{user}="{password}"' for user, password in self._plain.items()),
        )
        path.write_text(usual + secured)  # the last value of a setting counts
        return path

    def add_user(self, user: str, password: str) -> None:
        """Add a user of both SCRAM mechanisms."""
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                added = UserScramCredentialUpsertion(user, mechanism, password)
                failed = {
                    user: why for user, why in admin.alter_user_scram_credentials([added]).items() if why
                }
                assert not failed, failed

    def allow(self, user: str, rights: Iterable[tuple[ACLOperation, ResourceType, str]]) -> None:
        """Give a user rights on resources. A name that ends with `*` is the beginning of names."""
        given = []
        for operation, kind, name in rights:
            pattern = (
                ACLResourcePatternType.PREFIXED if name.endswith("*") else ACLResourcePatternType.LITERAL
            )
            resource = ResourcePattern(kind, name.removesuffix("*"), pattern)
            given.append(ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, resource))
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.create_acls(given)
