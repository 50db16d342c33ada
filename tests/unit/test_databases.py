"""URLs of databases: a password that is not spelled for a URL is refused, and told to nobody."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.control.ops_database.database import OpsDatabase
from endmark.databases import database_url
from endmark.errors import ConfigError, MissingPartError
from endmark.relation.connection import engine
from endmark_feed.relation import seed_relation
from endmark_ops.readers.source import OpsReader

OPENED_BY: list[Callable[[str], Any]] = [
    OpsDatabase,
    OpsReader,
    lambda url: engine(url, 1),
    lambda url: seed_relation(url, 1, 1),
]


@pytest.mark.parametrize("opened", OPENED_BY)
@pytest.mark.parametrize("password", ["up@hunter2", "up@hunter2/x", "up@hunter2:x", "up@x?hunter2"])
def test_a_password_with_an_at_sign_as_it_is_is_refused_without_being_told(
    opened: Callable[[str], Any], password: str
) -> None:
    """Drivers would take the rest after its first @ for a host, and put it into their errors."""
    with pytest.raises(ConfigError, match="%40") as refused:
        opened(f"mysql+pymysql://ops:{password}@127.0.0.1:1/warehouse")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "driver"),
    [
        ("sqlite:///r.db", "sqlite"),
        ("mysql://ops:x@host/warehouse", "mysql+pymysql"),
        ("mysql+pymysql://ops:x@host/warehouse", "mysql+pymysql"),
        ("mariadb://ops:x@host/warehouse", "mariadb+pymysql"),
        ("postgres://ops:x@host/warehouse", "postgresql+pg8000"),
        ("postgresql://ops:x@host/warehouse", "postgresql+pg8000"),
    ],
)
def test_urls_as_people_write_them(written: str, driver: str) -> None:
    """Each opens with the driver that endmark installs; what stands behind the driver stays."""
    parsed = database_url(written, "the URL")
    assert parsed.drivername == driver
    assert parsed.render_as_string(hide_password=False).partition("://")[2] == written.partition("://")[2]


@pytest.mark.parametrize("opened", OPENED_BY)
@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("oracle://ops:hunter2@host/r", ConfigError, "begins with 'oracle', which is no known database"),
        (
            "mysql+nothing://ops:hunter2@host/r",
            ConfigError,
            r"'nothing', which is not known; leave \+nothing out",
        ),
        ("postgres://ops:hunter2@host/r", MissingPartError, r"pip install 'endmark\[postgresql\]'"),
        (
            "mysql+mysqldb://ops:hunter2@host/r",
            MissingPartError,
            r"leave \+mysqldb out, or install its package",
        ),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[str], Any],
    url: str,
    error: type[Exception],
    says: str,
) -> None:
    for driver in ("pg8000", "MySQLdb"):
        monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(error, match=says) as refused:
        opened(url)
    assert "hunter2" not in str(refused.value)


def test_other_at_signs_are_taken() -> None:
    assert database_url("sqlite:////data/a@b.db", "the URL").database == "/data/a@b.db"
    spelled = database_url("mysql+pymysql://ops:up%40hunter2@host/warehouse", "the URL")
    assert (spelled.password, spelled.host) == ("up@hunter2", "host")
    assert isinstance(spelled, sa.URL)


@pytest.mark.parametrize("opened", OPENED_BY)
@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            "postgresql://ops:hunter2@host/r?sslmode=require",
            "option sslmode, which the driver pg8000 does not",
        ),
        (
            "postgresql://ops:hunter2@host/r?ssl_context=hunter2",
            "option ssl_context, which the driver pg8000",
        ),
        ("mysql://ops:hunter2@host/r?ssl_mode=hunter2", "option ssl_mode, which the driver pymysql does not"),
        ("mysql://ops:hunter2@host/r?ssl=true&useSSL=1", "option ssl, useSSL, which the driver pymysql"),
        (
            "mysql://ops:hunter2@host/r?read_timeout=hunter2",
            "option whose value has a wrong form; correct it",
        ),
    ],
)
def test_options_of_other_drivers_are_named(opened: Callable[[str], Any], url: str, says: str) -> None:
    """A driver took them for arguments, and the job ended in a stack trace."""
    with pytest.raises(ConfigError, match=says) as refused:
        opened(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("opened", [OpsDatabase, lambda url: engine(url, 1)])
@pytest.mark.parametrize("option", ["ssl_ca", "ssl_cert", "ssl_key"])
def test_a_certificate_that_cannot_be_read_is_named(
    opened: Callable[[str], Any], option: str, tmp_path: Path
) -> None:
    """The driver found it out at each connection, so a job waited for the server until it gave up."""
    file = tmp_path / "tls.pem"
    says = f"names the file {file} by {option}, which cannot be read: No such file or directory; correct"
    with pytest.raises(ConfigError, match=re.escape(says)):
        opened(f"mysql://ops:hunter2@127.0.0.1:1/r?{option}={file}")


@pytest.mark.parametrize("opened", OPENED_BY)
@pytest.mark.parametrize(
    "query",
    [
        "ssl_verify_identity=true",
        "ssl_ca=/ca.pem&ssl_verify_identity=true",
        "ssl_ca=/ca.pem&ssl_verify_cert=true",
        "ssl_ca=/ca.pem&ssl_cert=/a.pem&ssl_key=/a.key&ssl_key_password=hunter2",
        "ssl_disabled=false",
    ],
)
def test_options_that_do_not_do_what_they_say(opened: Callable[[str], Any], query: str) -> None:
    """With `ssl_verify_identity`, PyMySQL trusts whoever has a certificate of any public authority."""
    name = query.rpartition("&")[2].partition("=")[0]
    with pytest.raises(ConfigError, match=rf"option {name}, by which the driver pymysql does not") as refused:
        opened(f"mysql://ops:hunter2@127.0.0.1:1/r?{query}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("opened", [OpsDatabase, lambda url: engine(url, 1)])
def test_a_certificate_that_does_not_serve_is_named(opened: Callable[[str], Any], tmp_path: Path) -> None:
    """The driver's error named no file, and was no error of ours."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=tmp_path)

    for name in ("a", "b"):
        made = [
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            f"/CN={name}",
        ]
        openssl("req", *made, "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("pkey", "-in", "a.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
    wrong = {
        "ssl_ca=a.key": "a.key by ssl_ca, which has no authorities",
        "ssl_ca=a.pem&ssl_cert=a.pem&ssl_key=b.key": "a.pem by ssl_cert and its key by ssl_key, which do not",
        "ssl_ca=a.pem&ssl_cert=a.pem&ssl_key=locked.key": "locked.key that has a password; write one without",
    }
    for query, says in wrong.items():
        with pytest.raises(ConfigError, match=re.escape(says)):
            opened("mysql://ops@127.0.0.1:1/r?" + query.replace("=", f"={tmp_path}/"))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ops@host/r?ssl_ca=/ca.pem&ssl_check_hostname=false&connect_timeout=5",
        "mysql://ops@host/r?ssl_disabled=true&charset=utf8mb4",
        "postgresql://ops@host/r?application_name=endmark",
        "sqlite:///file:r.db?mode=ro&uri=true",
    ],
)
def test_options_of_the_driver_are_taken(url: str) -> None:
    query = url.partition("?")[2]
    assert dict(database_url(url, "the URL").query) == dict(each.split("=") for each in query.split("&"))
