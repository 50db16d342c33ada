"""The step that joins rows with a relation."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from endmark.operators.lookup.strategies import Name as StrategyName
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Knob, Pinned
from endmark.pipeline.fields import Attempts, Count, Duration, Model, Name, Pause, Reference, References, Size


class Cache(Model):
    """The cache of a relation's rows in each Python process of the job. It keeps the rows asked for most.

    A cached row is used for `lifetime`, so results may show the relation as it was that long ago. A key that
    the relation did not have counts as absent for `absent_lifetime`. Keys asked for often are read again in
    the last quarter of their lifetime, each at a time of its own. A punctuation of the stream that names a
    looked-up key evicts it.
    """

    memory: Annotated[
        Size,
        Knob(
            "size",
            "such as 64MB, up to 1000000GB; a number is bytes",
            "The memory of cached rows in each Python process. Less of it drops rows that are rarely "
            "asked for.",
        ),
    ] = 64_000_000
    lifetime: Annotated[
        Duration,
        Knob(
            "duration",
            "such as 30s or 5m, up to 36500d",
            "The time for which a cached row is used, and so the greatest age of the relation's rows in "
            "results.",
        ),
    ] = timedelta(minutes=5)
    absent_lifetime: Annotated[
        Duration,
        Knob(
            "duration",
            "such as 10s, up to 36500d",
            "The time for which a key that the relation did not have counts as absent.",
        ),
    ] = timedelta(seconds=10)


Fate = Literal["drop", "nulls", "dead_letter"]


class Park(Model):
    """The rule for parked rows.

    The relation is asked `attempts` times in all, `delay` apart. A row without a match even then has the fate
    `then`.
    """

    delay: AtRestart[Pause]
    attempts: AtRestart[Attempts]
    then: Pinned[Fate] = "drop"


class Parking(Model):
    """The choice that rows without a match wait, since the relation may get one."""

    park: Pinned[Park]


Miss = Annotated[
    Annotated[Fate, Tag("[word]")] | Annotated[Parking, Tag("[park]")],
    Discriminator(lambda value: "[word]" if isinstance(value, str) else "[park]"),
]


class AsOf(Model):
    """The columns by which a row picks one of a key's versions.

    A version is valid from the time in the relation's column `relation` on. A row meets the newest version
    that is not newer than the time in the column `stream`, which is named as in `key`. A row that is older
    than all versions meets none.
    """

    stream: Pinned[Reference]
    relation: Pinned[Name]


class Lookup(Model):
    """The join of rows with a relation.

    `key` has a column of the rows for each column of the relation's key, in the same order and of the same
    type. It may be a column of a relation that an earlier step has looked up: `customers.country`, or the
    column alone if only one has it.

    `strategy` says what is read next: pages of `page_rows` rows, lists of keys, or all of the relation;
    `auto` takes the cheapest by measured costs. A relation that is read by lists of keys alone needs `auto`,
    `batched` or `inlj`.

    A batch that is no pause (`batch.pause_below`) stops reading after `time_per_batch`. Rows without an
    answer wait in `memory`, which all buckets share, and hold back the records that came after them. When
    `memory` is full, the batch reads on.

    `miss` is the fate of rows without a match: `nulls` joins them with nulls for the relation's columns.
    Parked rows hold back the records that came after them, too. Under `cardinality: many_to_many` the
    relation may have several rows of a key, and each of them makes a row. Otherwise several rows of a key are
    an error, unless `as_of` picks one of them. With `autotune` the job turns `page_rows` and the memory of
    the cache by the measured costs of reads.
    """

    relation: Pinned[Name]
    key: Pinned[References]
    cardinality: Pinned[Literal["many_to_one", "many_to_many"]] = "many_to_one"
    as_of: Pinned[AsOf | None] = None
    strategy: Annotated[
        StrategyName,
        Knob(
            "choice",
            "auto takes the cheapest by measured costs",
            "The way to read the relation: by pages, by lists of keys, or all of it.",
        ),
    ] = "auto"
    page_rows: Annotated[
        Count,
        Knob(
            "number",
            "1 to 1000000",
            "Rows of a page. Each Python process makes its page directory anew, by one short read for "
            "each page.",
        ),
    ] = 500
    time_per_batch: Annotated[
        Duration | None,
        Knob(
            "duration",
            "such as 500ms or 2s, up to 36500d; null: until all rows are answered",
            "The time for which a batch that is no pause reads the relation. Unanswered rows wait for the "
            "next batch.",
        ),
    ] = None
    memory: Annotated[
        Size,
        Knob(
            "size",
            "such as 64MB, up to 1000000GB; a number is bytes",
            "The memory of waiting rows, in all buckets. A batch that would leave more reads on.",
        ),
    ] = 64_000_000
    miss: Pinned[Miss] = "drop"
    cache: Annotated[Cache | None, ChangeRule(change=Change.RESTART, remark="whether there is one")] = None
    autotune: AtRestart[bool] = False

    @property
    def unique(self) -> bool:
        """True if a row has at most one match."""
        return self.cardinality == "many_to_one"

    @property
    def versions(self) -> str | None:
        """The relation's column by which versions of a key differ; `None` without versions."""
        return None if self.as_of is None else self.as_of.relation

    @property
    def park(self) -> Park | None:
        """The parking of rows without a match; `None` if they are not parked."""
        return self.miss.park if isinstance(self.miss, Parking) else None

    @property
    def fate(self) -> Fate:
        """The fate of rows that have no match, not even after they were parked."""
        return self.miss.park.then if isinstance(self.miss, Parking) else self.miss


class LookupStep(Model):
    """A step that looks its rows up in a relation."""

    kind: ClassVar[Literal["lookup"]] = "lookup"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    lookup: Lookup

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows are looked up."""
        return (self.source,)
