"""The texts that a column of MySQL or MariaDB can hold, by its character set.

The server converts a text of a statement to the column's character set, so that it can use the index. If the
set does not have one of the characters, the server refuses the whole statement ("Illegal mix of collations").
Such a text is no key of the table, so it is not asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

_BEYOND_UTF8MB3 = r"[\x{10000}-\x{10FFFF}]"
# MySQL's latin1 is Windows' code page 1252. It keeps its five empty codes as control characters.
_LATIN1 = r"\x00-\x7F\x81\x8D\x8F\x90\x9D\xA0-\xFF" + "".join(
    bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
)
# For each character set a pattern of the characters that it does not have; `None` if it has all.
CHARSETS: dict[str, str | None] = {
    "utf8mb4": None,
    "utf8mb3": _BEYOND_UTF8MB3,
    "utf8": _BEYOND_UTF8MB3,  # the name of utf8mb3 in MySQL before 8.0.28
    "latin1": f"[^{_LATIN1}]",
    "ascii": r"[^\x00-\x7F]",
}


def charset_of(collation: str) -> str:
    """Return the character set of a collation, which begins with its name."""
    return collation.partition("_")[0]


def storable_texts(texts: pa.Array, collation: str) -> pa.Array:
    """Return a mask of the texts that a column of a collation can hold."""
    beyond = CHARSETS[charset_of(collation)]
    if beyond is None:
        return pc.is_valid(texts)
    return pc.invert(pc.match_substring_regex(texts, beyond))
