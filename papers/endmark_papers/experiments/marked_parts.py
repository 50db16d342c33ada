"""The generated parts of a page, each between the marks `<!-- begin NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable

_PART = re.compile(r"(<!-- begin (?P<name>[a-z0-9_-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def fill(page: str, part: Callable[[str], str | None]) -> str:
    """Return the page with its generated parts written anew.

    Args:
        page: the text of the page.
        part: takes the name of a part and returns its new text; `None` leaves the part as it is.
    """

    def written(found: re.Match[str]) -> str:
        text = part(found["name"])
        return found[0] if text is None else f"{found[1]}{text}\n{found[3]}"

    return _PART.sub(written, page)
