"""Tokens of an identity provider: fetched once, and refused with a cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from endmark.errors import ConfigError, MissingPartError
from endmark.kafka.cluster import KafkaCluster, Login, Tls
from endmark.kafka.tokens import Tokens, _life
from support.identity_provider import LIFE, SCOPE, IdentityProvider

SECRET = "s:e%c r&et"  # noqa: S105  # it has what a header and a form must escape


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    with IdentityProvider(tmp_path, {"shop:1": SECRET}) as running:
        yield running


@pytest.fixture
def login(provider: IdentityProvider) -> Login:
    return Login("OAUTHBEARER", "shop:1", SECRET, provider.token_url, SCOPE)


def test_a_token_is_given_out_for_most_of_its_life(
    provider: IdentityProvider, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("endmark.kafka.tokens.time.monotonic", lambda: now)
    fetched = Tokens(login)
    first = fetched.token()
    now += 0.79 * LIFE
    assert fetched.token() == first
    assert provider.given == 1
    now += 0.02 * LIFE
    fetched.token()
    assert provider.given == 2


def test_an_unknown_client_is_refused_at_once(login: Login) -> None:
    wrong = KafkaCluster("a:1", Tls(), replace(login, user="other"))
    with pytest.raises(ConfigError, match=r"/token refuses a token for other: 401 .*invalid_client"):
        wrong.python()


def test_a_provider_that_is_away_is_named(provider: IdentityProvider, login: Login) -> None:
    provider.__exit__()
    with pytest.raises(MissingPartError, match="no identity provider answers at http://127"):
        Tokens(login).token()


@pytest.mark.parametrize(
    ("told", "seconds"), [({}, 60), ({"expires_in": None}, 60), ({"expires_in": "3599"}, 3599)]
)
def test_the_life_of_a_token(told: dict[str, object], seconds: float) -> None:
    assert _life(told) == seconds


def test_each_client_has_the_secret(login: Login) -> None:
    kafka = KafkaCluster("a:1", Tls(), login)
    assert kafka.python()["sasl_oauth_token_provider"].token().count(".") == 2
    task = kafka.librdkafka()
    assert task["sasl.oauthbearer.method"] == "oidc"
    assert task["sasl.oauthbearer.client.secret"] == SECRET
    spark = kafka.spark()
    assert spark["kafka.sasl.jaas.config"].endswith(
        f'required clientId="shop:1" clientSecret="{SECRET}" scope="kafka";'
    )
    assert SECRET not in repr(kafka)
