"""An identity provider: gives clients tokens that a broker with its public key believes."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

from endmark.embedded.ports import LOOPBACK

SCOPE = "kafka"
LIFE = 300  # seconds
_EXPONENT = 65537


class IdentityProvider:
    """Answers at `token_url` while it is entered; `keys` is the file of its public key (JWKS).

    Args:
        directory: the directory of its keys.
        secrets: the secret of each client.
    """

    def __init__(self, directory: Path, secrets: dict[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._key, self.keys = directory / "key.pem", directory / "keys.json"
        self._openssl("genrsa", "-out", str(self._key), "2048")
        modulus = self._openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip()
        public = {
            "n": _encoded(bytes.fromhex(modulus.removeprefix("Modulus="))),
            "e": _encoded(_EXPONENT.to_bytes(3)),
        }
        whole = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", **public}
        self.keys.write_text(json.dumps({"keys": [whole]}))
        self.given = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                named = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                client, secret = map(unquote_plus, named.split(":"))
                status, answer = 401, {"error": "invalid_client"}
                if form["grant_type"] == ["client_credentials"] and secrets.get(client) == secret:
                    assert form["scope"] == [SCOPE]
                    status, answer = 200, provider._token(client)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @property
    def token_url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _token(self, client: str) -> dict[str, Any]:
        self.given += 1
        now = int(time.time())
        parts: list[dict[str, Any]] = [
            {"alg": "RS256", "typ": "JWT", "kid": "1"},
            {"sub": client, "scope": SCOPE, "iat": now, "exp": now + LIFE},
        ]
        text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        signature = self._openssl("dgst", "-sha256", "-sign", str(self._key), given=text.encode())
        return {
            "access_token": f"{text}.{_encoded(signature)}",
            "token_type": "Bearer",
            "expires_in": LIFE,
        }

    def _openssl(self, *arguments: str, given: bytes = b"") -> bytes:
        return subprocess.run(["openssl", *arguments], input=given, check=True, capture_output=True).stdout


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
