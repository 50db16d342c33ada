"""The section `registry` of a pipeline file: the schemas of records in Avro and Protobuf."""

from __future__ import annotations

import re
import ssl
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, model_validator

from endmark.errors import ConfigError
from endmark.pipeline.change_rules import AtRestart
from endmark.pipeline.fields import Duration, Model
from endmark.pipeline.formats import FORMATS
from endmark.schemas.registry import SchemaFile, SchemaRegistry

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline

_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\s@/?#:\[\]]+)"
# A password in the address would be in each error that names the registry.
_ADDRESS = rf"^https?://{_HOST}(:[0-9]{{1,5}})?(/[^\s@?#]*)?$"


def _address(text: str) -> str:
    if not re.fullmatch(_ADDRESS, text):
        raise ValueError(
            "this is no address; write one such as https://registry.example/apis/ccompat/v7, and a login "
            "under user and password"
        )
    return text


Address = Annotated[str, AfterValidator(_address), WithJsonSchema({"type": "string", "pattern": _ADDRESS})]


class Registry(Model):
    """The registry of schemas, with Confluent's API, for streams of Avro and Protobuf.

    `url` is the address of the API, such as `https://registry.example/apis/ccompat/v7`. Write the password as
    `${REGISTRY_PASSWORD}`: the variable `REGISTRY_PASSWORD` then has it, or `REGISTRY_PASSWORD_FILE` names a
    file with it. A login needs `https`. `ca` is a file of PEM with the authorities that sign the registry's
    certificate; without it, those of the operating system count. `certificate` and `key` are our own files of
    PEM, for a registry that asks for a certificate; the key has no password. If the registry does not answer,
    a task that needs a schema asks again for the time `retry`, and then the job stops.
    """

    url: AtRestart[Address]
    user: AtRestart[Annotated[str, Field(min_length=1, pattern="^[^:]+$")] | None] = None
    password: AtRestart[Annotated[SecretStr, Field(min_length=1)] | None] = None
    ca: AtRestart[Path | None] = None
    certificate: AtRestart[Path | None] = None
    key: AtRestart[Path | None] = None
    retry: AtRestart[Duration] = timedelta(minutes=1)

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("a user needs a password, and a password its user; name both, or none")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate; name both, or none")
        if self.url.startswith("http:") and (self.user or self.ca or self.certificate):
            raise ValueError(
                "url: a login sends the password as it is, and ca and certificate are of TLS; write https://"
            )
        return self

    def client(self, kind: str) -> SchemaRegistry:
        """Return the registry as tasks ask it, for schemas of one type, such as `AVRO`.

        Raises:
            ConfigError: a file of certificates cannot be read, or the key is not that of the certificate.
        """
        ca = None
        if self.ca is not None:
            try:
                ca = self.ca.read_text(encoding="ascii")
                # The error of a task would not name the file, and Python takes an empty one for none.
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=ca)
            except (OSError, ValueError) as error:  # errors of TLS and of characters are among these
                raise ConfigError(
                    f"registry.ca: {self.ca} cannot be read: {error}; name a file of PEM"
                ) from None
        password = None if self.password is None else self.password.get_secret_value()
        patience = self.retry.total_seconds()
        return SchemaRegistry(self.url.rstrip("/"), self.user, password, ca, patience, kind, self._identity())

    def _identity(self) -> str | None:
        """Return the text of our own key and certificate, if the registry asks for some."""
        if self.certificate is None or self.key is None:
            return None
        try:
            # Without a password, OpenSSL would ask the terminal for that of a key.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(self.certificate, self.key, password="")
            return "".join(file.read_text(encoding="ascii") for file in (self.key, self.certificate))
        except (OSError, ValueError) as error:  # errors of TLS and of characters are among these
            raise ConfigError(
                f"registry.certificate: {self.certificate} and registry.key: {self.key} do not serve: "
                f"{error}; name a certificate and its own key without a password, both in PEM"
            ) from None


def schemas_of(pipeline: Pipeline, stream: str) -> SchemaFile | SchemaRegistry | None:
    """Return the schemas by which a stream's records are written; `None` if its format has none.

    Raises:
        ConfigError: a file that the pipeline names cannot be read.
    """
    declared = pipeline.streams[stream]
    kind = FORMATS[declared.format].schemas
    if kind is None:
        return None
    if declared.schema_file is not None:
        return SchemaFile.read(declared.schema_file)
    return None if pipeline.registry is None else pipeline.registry.client(kind)
