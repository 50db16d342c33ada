"""The sidecar restricts a browser and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from endmark.errors import ConfigError
from endmark_ops.app import STATIC, create_app
from endmark_ops.http.security import HEADERS
from support.ops_client import OpsClient
from support.ops_job import API


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "localhost:8080", 200),
        ("/static/main.js", "127.0.0.1", 200),
        ("/metrics", "127.0.0.1", 200),
        ("/readyz", "127.0.0.1", 503),
        ("/nothing", "127.0.0.1", 404),
        ("/static/../app.py", "127.0.0.1", 404),
        (f"{API}/status", "127.0.0.1", 404),
        ("/api/pipelines/9/status", "127.0.0.1", 422),
        ("/pipelines/auction/", "127.0.0.1", 200),
        ("/healthz", "evil.example", 400),
        ("/crash", "127.0.0.1", 500),
    ],
)
def test_every_answer_has_security_headers(tmp_path: Path, path: str, host: str, status: int) -> None:
    """Whatever the status, the policy headers are there once, and no cookies or CORS headers."""
    app = create_app(f"sqlite:///{tmp_path / 'ops.db'}")
    app.add_api_route("/crash", lambda: 1 / 0)
    with OpsClient(app, raise_server_exceptions=False) as client:
        answer = client.get(path, headers={"Host": host, "Origin": "https://evil.example"})
    assert answer.status_code == status
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    assert "'unsafe" not in HEADERS["Content-Security-Policy"]
    assert not [name for name in answer.headers if name in ("set-cookie", "access-control-allow-origin")]
    assert "ZeroDivisionError" not in answer.text


def test_further_host_names_are_answered_to_on_request(tmp_path: Path) -> None:
    """In a container network the sidecar has a name of its own; nobody is trusted with any other."""
    app = create_app(f"sqlite:///{tmp_path / 'ops.db'}", known_as=["ops", "*.example"])
    hosts = ("ops:8080", "a.example", "localhost", "evil")
    with OpsClient(app) as client:
        answers = [client.get("/healthz", headers={"Host": host}) for host in hosts]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 400]


@pytest.mark.parametrize(
    "host", ["ops.example", "OPS.example:8443", "evil", "", "[::1]:80", "localhost:80:80", "a" * 999]
)
def test_who_asks_by_another_name_is_told_how_to_let_it_in(tmp_path: Path, host: str) -> None:
    """The answer was `Invalid host header`, with which nobody found the option."""
    with OpsClient(create_app(f"sqlite:///{tmp_path / 'ops.db'}", known_as=["*.other"])) as client:
        refused = client.get("/healthz", headers={"Host": host})
        known = client.get("/healthz", headers={"Host": "LocalHost:80"})

    assert (refused.status_code, known.status_code) == (400, 200)
    detail = refused.json()["detail"]
    assert "this sidecar does not answer to the host name" in detail
    assert "--known-as" in detail
    assert len(detail) < 400


@pytest.mark.parametrize("name", ["ops.example:8443", "https://ops.example", "ops*.example", "", "[::1]"])
def test_what_is_no_host_name_is_refused(tmp_path: Path, name: str) -> None:
    """With it, each request was refused, or answered with status 500."""
    with pytest.raises(ConfigError, match=r"--known-as .* without a scheme and a port"):
        create_app(f"sqlite:///{tmp_path / 'ops.db'}", known_as=["ops", name])


def test_view_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    """Our own view and scripts keep to the content policy and never write markup."""
    for view in STATIC.glob("*.html"):
        markup = view.read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", markup)
    scripts = [each for each in STATIC.rglob("*.js") if "vendor" not in each.parts]
    assert len(scripts) > 20
    for script in scripts:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script.read_text()
        )


def test_sidecar_loads_without_spark() -> None:
    """Importing the sidecar loads no package that only the job or the verifier needs."""
    code = "import sys, endmark_ops.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "fastapi" in loaded
    assert not loaded & {"pyspark", "pyarrow", "pandas", "duckdb", "numpy", "delta"}
