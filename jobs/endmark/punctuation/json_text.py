"""Writes punctuations that name one value of each column as JSON text, for whole columns at once.

The text is the one that `wire_json` writes, without the member that marks a record as a punctuation. Python
runs only for texts that need escapes, and for decimals that Arrow writes with an exponent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'


def named(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return a punctuation for each row that names its values, such as `{"item_id": {"equals": 42}}`."""
    pieces: list[pa.Array | str] = []
    for number, (name, values) in enumerate(sorted(columns.items())):
        pieces += [f'{", " if number else "{"}{json.dumps(name)}: {{"equals": ', _scalars(values), "}"]
    return pc.binary_join_element_wise(*pieces, "}", "")


def _scalars(values: pa.Array) -> pa.Array:
    """The values as JSON scalars, spelled as in data records. Decimals have no zeros at the end."""
    if pa.types.is_string(values.type):
        quoted = pc.binary_join_element_wise('"', values, '"', "")
        return _replaced(quoted, pc.match_substring_regex(values, _NEEDS_ESCAPE), values, _escaped)
    if pa.types.is_timestamp(values.type):
        text = pc.replace_substring(values.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
        return pc.binary_join_element_wise('"', text, 'Z"', "")
    if pa.types.is_decimal(values.type):
        text = values.cast(pa.string())
        text = _replaced(text, pc.match_substring(text, "E"), values, lambda value: format(value, "f"))
        short = pc.replace_substring_regex(text, r"^([^.]*)(?:\.0*|(\.[0-9]*[1-9])0*)$", r"\1\2")
        return pc.binary_join_element_wise('"', short, '"', "")
    text = values.cast(pa.string())
    return pc.binary_join_element_wise('"', text, '"', "") if pa.types.is_date32(values.type) else text


def _escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _replaced(texts: pa.Array, which: pa.Array, values: pa.Array, spell: Callable[[Any], str]) -> pa.Array:
    """Replace the texts of some values, which are spelled one by one.

    Args:
        texts: a text for each value.
        which: a mask of the values to spell anew.
        values: the values.
        spell: returns the text of a value.
    """
    if not pc.any(which).as_py():
        return texts
    return pc.replace_with_mask(
        texts, which, pa.array(map(spell, values.filter(which).to_pylist()), pa.string())
    )
