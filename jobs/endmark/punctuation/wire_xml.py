"""Punctuations as XML records, as in figure 3 of the MJoin report.

    <punct:record><sno> 79 </sno><ipaddr> * </ipaddr></punct:record>

The element of an attribute holds its pattern in the notation of `notation.py`. An attribute without an
element matches anything. The report declares no namespace for the prefix, so a declaration is allowed but not
needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from endmark.domain import Domain, PunctuationError
from endmark.punctuation.flat_xml import read_flat
from endmark.punctuation.notation import from_notation
from endmark.punctuation.punctuation import Origin, Punctuation

RECORD = "punct:record"


def decode(
    record: bytes, stream: str, domains: Mapping[str, Domain], origin: Origin | None = None
) -> Punctuation:
    """Read the punctuation of an XML record.

    Args:
        record: the bytes of the record.
        stream: the name of the stream.
        domains: the domains of the stream's attributes.
        origin: the coordinates of the record in its topic; `None` if it has none.

    Raises:
        PunctuationError: the bytes are no punctuation.
    """
    root, texts = read_flat(record)
    if root != RECORD:
        raise PunctuationError(f"{root!r} stands where only {RECORD} may")
    if not texts:
        raise PunctuationError(f"{RECORD} names no attribute")
    return Punctuation.read(stream, texts, domains, from_notation, origin)
