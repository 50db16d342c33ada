"""How each field of the pipeline file may change, collected from the declarations of the fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from endmark.pipeline import Pipeline
from endmark.pipeline.change_rules import Change, ChangeRule, Knob
from endmark.pipeline.fields import Model, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic.fields import FieldInfo

PINNED = Change.TURN, Change.NEW_CHECKPOINT  # a checkpoint keeps the values of these fields


@dataclass(frozen=True)
class DeclaredField:
    """A field as the pipeline model declares it.

    Args:
        part: the model of the part of the file that has the field.
        info: the field's type and default.
        rule: the field's own rule, or else the part's; `None` if only the fields below it have rules.
        is_line: whether the rule differs from the part's. Then the table in the docs needs a line for it.
    """

    part: type[Model]
    info: FieldInfo
    rule: ChangeRule | None
    is_line: bool


def _fields(
    part: type[Model], path: tuple[str, ...] = (), above: ChangeRule | None = None
) -> Iterator[tuple[tuple[str, ...], DeclaredField]]:
    for name, info in fields_of(part).items():
        rule = next((each for each in info.metadata if isinstance(each, ChangeRule)), above)
        yield (*path, name), DeclaredField(part, info, rule, is_line=rule != above)
        for names, inner in _parts(info.annotation):
            yield from _fields(inner, (*path, name, *names), rule)


def _parts(annotation: Any) -> Iterator[tuple[tuple[str, ...], type[Model]]]:
    """Yield the models that a value of this type may hold, with the names that lead to them."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield (), annotation
    names = ("*",) if get_origin(annotation) is dict else ()
    for each in get_args(annotation):
        for below, part in _parts(each):
            yield (*names, *below), part


# Fields by their names from the top of the file on. `*` stands for any name.
FIELDS = dict(_fields(Pipeline))
KNOBS = {path: field.rule for path, field in FIELDS.items() if isinstance(field.rule, Knob)}
# A line holds for a field and for all fields below it that have no line of their own.
LINES = {
    ".".join(path): field.rule for path, field in FIELDS.items() if field.rule is not None and field.is_line
}


def rule_of(path: Sequence[str]) -> ChangeRule:
    """Return how a field may change, given its names from the top of the file on.

    Raises:
        KeyError: a pipeline file has no such field.
    """
    found, known = None, tuple[str, ...]()
    for name in path:
        known = (*known, name) if (*known, name) in FIELDS else (*known, "*")
        found = FIELDS[known].rule if known in FIELDS else found
    if found is None:
        raise KeyError(".".join(path))
    return found
