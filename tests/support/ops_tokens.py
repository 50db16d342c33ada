"""Tokens of the sidecar's tests: what they are, and headers with them."""

from __future__ import annotations

from endmark_ops.http.access import parse_tokens

READER, WRITER = "grafana-0123456789abcdef", "operator-0123456789abcdef"
WRITE_ONLY = parse_tokens(f"ann:write:{WRITER}", "here")
BOTH = parse_tokens(f"grafana:read:{READER}\nann:write:{WRITER}", "here")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
