"""The pages of web servers on this machine, read as a browser's user would find them."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from endmark.embedded.ports import LOOPBACK

_LINK = re.compile(r"""href=["']([^"']+)["']""")
_MOST_PAGES = 300
_SECONDS = 60.0


def linked_pages(start: str) -> dict[str, str]:
    """Follow all links on this machine from a page, and return the text of each page by its address.

    Raises:
        AssertionError: there are more than 300 pages.
    """
    pages, waiting = dict[str, str](), [start]
    while waiting:
        address = waiting.pop()
        if address in pages:
            continue
        assert len(pages) < _MOST_PAGES, f"there are more than {_MOST_PAGES} pages behind {start}"
        pages[address] = text = read(address)
        links = (urldefrag(urljoin(address, link.replace("&amp;", "&"))).url for link in _LINK.findall(text))
        waiting += [link for link in links if urlsplit(link).hostname == LOOPBACK]
    return pages


def sidecar_pages(start: str, pipeline: str) -> dict[str, str]:
    """Return the dashboard's pages, and what each GET of the sidecar's API answers for a pipeline.

    The stream of events is left out, since it does not end: it has what the status has.
    """
    document: dict[str, Any] = json.loads(read(f"{start}openapi.json"))
    pages = linked_pages(start) | linked_pages(f"{start}pipelines/{pipeline}/")
    for path, operations in document["paths"].items():
        filled = path.replace("{pipeline}", pipeline)
        if "get" in operations and "{" not in filled and "text/event-stream" not in json.dumps(operations):
            address = urljoin(start, filled)
            pages[address] = read(address)
    return pages


def read(address: str) -> str:
    """Return what a server answers.

    Raises:
        HTTPError: it answers with an error. Only `/readyz` may: it answers 503 while a job starts.
    """
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310  # on loopback
            content: bytes = answer.read()
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE or not urlsplit(address).path.startswith("/readyz"):
            raise
        content = error.read()
    return content.decode(errors="replace")
