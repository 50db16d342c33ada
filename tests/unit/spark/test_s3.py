"""The settings of a session whose checkpoint is in S3."""

from __future__ import annotations

import pytest

from endmark.errors import ConfigError
from endmark.spark.s3 import s3_settings

S3A = "spark.hadoop.fs.s3a"


def test_amazon_needs_a_region_alone() -> None:
    found = s3_settings({"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "canary"})

    assert found[f"{S3A}.endpoint.region"] == "eu-central-1"
    assert not {f"{S3A}.endpoint", f"{S3A}.path.style.access"} & found.keys()
    assert "canary" not in str(found)


@pytest.mark.parametrize(("hosted", "by_path"), [("", "true"), ("true", "false")])
def test_another_store_is_named_by_its_url(hosted: str, by_path: str) -> None:
    given = {"AWS_ENDPOINT_URL": "https://store:9000", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": hosted}
    found = s3_settings(given)

    assert found[f"{S3A}.endpoint"] == "https://store:9000"
    assert found[f"{S3A}.path.style.access"] == by_path
    assert found[f"{S3A}.connection.ssl.enabled"] == "true"


def test_a_store_without_tls_is_allowed_by_name() -> None:
    given = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}
    with pytest.raises(ConfigError, match=r"has no TLS; .* or set AWS_ALLOW_HTTP=true"):
        s3_settings(given)

    assert s3_settings(given | {"AWS_ALLOW_HTTP": "true"})[f"{S3A}.connection.ssl.enabled"] == "false"
