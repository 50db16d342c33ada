"""The settings of our clients of Kafka, and the section `kafka` of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.errors import ConfigError
from endmark.kafka.cluster import KafkaCluster, Login, Tls, cluster_of
from endmark.pipeline.file import load_kafka

PASSWORD = 'a"b\\c'  # noqa: S105  # it has what must be escaped
CLUSTER = KafkaCluster("a:1,b:2", Tls(), Login("SCRAM-SHA-512", "ann", PASSWORD))


def written(folder: Path, text: str) -> Path:
    file = folder / "kafka.yaml"
    file.write_text(text)
    return file


def test_addresses_alone_are_a_cluster_without_tls() -> None:
    assert cluster_of("a:1").spark() == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "PLAINTEXT",
    }
    assert cluster_of("a:1,b:2").python()["bootstrap_servers"] == ["a:1", "b:2"]


def test_a_login_is_spelled_for_each_client() -> None:
    python, spark, task = (
        CLUSTER.python(),
        CLUSTER.spark(),
        CLUSTER.librdkafka(),
    )
    assert task == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    assert python["sasl_plain_password"] == PASSWORD
    assert python["security_protocol"] == spark["kafka.security.protocol"] == "SASL_SSL"
    login = 'ScramLoginModule required username="ann" password="a\\"b\\\\c";'
    assert spark["kafka.sasl.jaas.config"].endswith(login)


def test_java_and_tasks_get_the_text_of_certificates(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ca", "certificate", "key")]
    for file in files:
        file.write_text(f"PEM of {file.name}")
    spark = KafkaCluster("a:1", Tls(*files)).spark()
    assert spark["kafka.security.protocol"] == "SSL"
    assert spark["kafka.ssl.truststore.certificates"] == "PEM of ca"
    assert spark["kafka.ssl.keystore.certificate.chain"] == "PEM of certificate"
    assert spark["kafka.ssl.keystore.key"] == "PEM of key"
    assert KafkaCluster("a:1", Tls(*files)).python()["ssl_keyfile"] == str(files[2])
    task = KafkaCluster("a:1", Tls(*files)).librdkafka()
    found = {name: text for name, text in task.items() if name.startswith("ssl.")}
    assert found == {
        f"ssl.{name}.pem": f"PEM of {file.name}"
        for name, file in zip(("ca", "certificate", "key"), files, strict=True)
    }


def test_a_client_has_a_name_and_a_rack() -> None:
    named = KafkaCluster("a:1", client_id="shop", rack="eu-1")
    assert named.python()["client_id"] == "shop"
    assert named.spark()["kafka.client.id"] == "shop"
    task = named.librdkafka()
    assert (task["client.id"], task["client.rack"]) == ("shop", "eu-1")


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    missing = KafkaCluster("a:1", Tls(tmp_path / "nowhere.pem"))
    for settings in (missing.python, missing.spark, missing.librdkafka):
        with pytest.raises(ConfigError, match=r"kafka.tls: .*nowhere.pem cannot be read"):
            settings()


def test_a_password_is_not_shown() -> None:
    assert PASSWORD not in repr(CLUSTER)
    assert str(CLUSTER) == "a:1,b:2"


def test_a_section_is_read_from_any_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("4711\n")
    file = written(
        tmp_path,
        "relations: {unknown: field}\n"
        "kafka: {bootstrap: 'a:1', tls: {ca: ca.pem}, sasl: {user: ann, password: '${SECRET}'}, "
        "client_id: shop, rack: eu-1}\n",
    )
    found = load_kafka(file, {"SECRET_FILE": str(tmp_path / "password")})
    assert found.cluster("b:2") == KafkaCluster(
        "b:2", Tls(Path("ca.pem")), Login("SCRAM-SHA-512", "ann", "4711"), "shop", "eu-1"
    )
    assert "4711" not in repr(found)
    assert "4711" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name: shop", "it has no section kafka"),
        ("kafka: {bootstrap: 'a'}", "line 1: kafka.bootstrap: "),
        ("kafka: {bootstrap: 'a:1', tls: {certificate: a}}", "kafka.tls: a certificate needs its key"),
        (
            "kafka: {bootstrap: 'a:1', sasl: {mechanism: PLAIN, user: a, password: b}}",
            "kafka: sasl.mechanism PLAIN sends a password or token as it is, so it needs TLS",
        ),
        (
            "kafka: {bootstrap: 'a:1', tls: {}, sasl: {mechanism: OAUTHBEARER, user: a, password: b}}",
            "mechanism OAUTHBEARER needs a token_url",
        ),
        (
            "kafka: {bootstrap: 'a:1', sasl: {user: a, password: b, token_url: 'https://c/d'}}",
            "no other mechanism has one",
        ),
        ("kafka: {bootstrap: 'a:1', sasl: {user: a, password: b, scope: c}}", "a scope is of a token"),
        (
            "kafka: {bootstrap: 'a:1', sasl: {user: a, password: b, token_url: 'http://c/d'}}",
            "kafka.sasl.token_url: ",
        ),
        ("kafka: {bootstrap: 'a:1', sasl: {user: a, pasword: hidden}}", "did you mean password?"),
        ("kafka: {bootstrap: 'a:1', sasl: {user: a, password: [hidden]}}", "kafka.sasl.password: "),
    ],
)
def test_a_wrong_section_is_refused_with_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_kafka(written(tmp_path, text), {})
    assert error in str(refused.value)
    assert "hidden" not in str(refused.value)
