"""The settings by which Spark keeps a checkpoint in S3, from the environment that delta-rs reads, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_S3A = "spark.hadoop.fs.s3a"
_SETTINGS = {
    # Files of a checkpoint appear whole or not at all, without a renaming, which S3 lacks.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    ),
    # The chain of Amazon's SDK: variables, web identity, profile, container, machine.
    f"{_S3A}.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    # By default, uploads wait in files below /tmp, which other users of the machine could read.
    f"{_S3A}.fast.upload.buffer": "array",
    # State is read once and from its start, which needs no other stream.
    f"{_S3A}.input.stream.type": "classic",
}


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session whose checkpoint is in S3. Secrets are not among them.

    Args:
        environment: the variables of docs/object-store.md.

    Raises:
        ConfigError: the endpoint has no TLS, and nobody has allowed this.
    """
    settings = dict(_SETTINGS)
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        settings[f"{_S3A}.endpoint.region"] = region
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        if not endpoint.startswith("https://") and not _is_true(environment, "AWS_ALLOW_HTTP"):
            raise ConfigError(
                f"AWS_ENDPOINT_URL {endpoint} has no TLS; name a URL with https, or set AWS_ALLOW_HTTP=true"
            )
        hosted = _is_true(environment, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
        settings |= {
            f"{_S3A}.endpoint": endpoint,
            f"{_S3A}.path.style.access": str(not hosted).lower(),
            f"{_S3A}.connection.ssl.enabled": str(endpoint.startswith("https://")).lower(),
        }
    return settings


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("true", "1")
