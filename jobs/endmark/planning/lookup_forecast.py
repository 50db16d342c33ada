"""The forecast of a lookup by `endmark plan`: the yield of each strategy by measured costs."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from endmark.control.ops_database.forecasts import ForMemory, LookupForecast
from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.lookup.workload import Setup
from endmark.planning import lookup_model
from endmark.planning.calibration import calibrate
from endmark.planning.lookup_model import AT_ONCE, WAITING
from endmark.relation.sql import SqlRelation

if TYPE_CHECKING:
    from endmark.operators.lookup.costs import JoinCosts
    from endmark.pipeline import Lookup, Pipeline
    from endmark.planning.lookup_model import Prediction

# Bytes of a value by kind, 8 for all others. A text counts as long as a usual name.
_BYTES = {Domain.BOOLEAN: 1, Domain.DATE: 4, Domain.DECIMAL: 16, Domain.STRING: 20}
_BESIDE = 34  # bytes of a waiting row's coordinates, batch, serial number and tries
_WHAT_IF = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Forecast:
    """The predicted yield of a pipeline's lookup on one core.

    Args:
        relation: the name of the relation.
        page_rows: rows of a page, from the pipeline.
        setup: the relation and the stream, as the cost model takes them.
        costs: the measured unit costs.
        predictions: the predictions for `setup`, the fastest first.
        best_page_rows: the page size at which `hybrid` is fastest, for keys without skew.
        what_if: predictions of `hybrid` with its best pages, by bytes of memory.
        by_memory: predictions of every strategy that has costs, with the pipeline's pages, by the same bytes.
    """

    relation: str
    page_rows: int
    setup: Setup
    costs: JoinCosts
    predictions: list[Prediction]
    best_page_rows: int
    what_if: dict[int, Prediction]
    by_memory: dict[int, list[Prediction]]

    @property
    def facts(self) -> dict[str, Any]:
        """The forecast as values for JSON."""
        return asdict(self)

    def for_sidecar(self) -> LookupForecast:
        """Return the forecast in the form that the sidecar shows."""
        setup = self.setup
        return LookupForecast(
            relation=self.relation,
            made_at=time.time(),
            relation_rows=setup.relation_rows,
            page_rows=self.page_rows,
            batch_rows=setup.batch_rows,
            exponent=setup.exponent,
            memory=setup.memory,
            waiting=list(WAITING),
            by_memory=[
                ForMemory(memory=memory, rates={each.strategy: each.rate for each in found})
                for memory, found in self.by_memory.items()
            ],
        )

    def lines(self) -> list[str]:
        """Return the forecast as lines of text."""
        setup, costs = self.setup, self.costs
        page = costs.seek + costs.page
        return [
            f"relation {self.relation}: about {setup.relation_rows:,} rows of {setup.row_bytes} bytes",
            f"a page of {self.page_rows} rows takes {page * 1e3:.2f} ms, a row {costs.row * 1e6:.1f} us",
            f"a key {costs.key * 1e6:.1f} us beside {costs.trip * 1e3:.2f} ms for a list of them",
            f"{setup.memory / 1e6:g} MB hold {setup.room():,} waiting rows",
            f"batches have {setup.batch_rows:,} rows",
            f"keys are asked for by Zipf's law with exponent {setup.exponent:g}",
            "",
            f"{'rows/s':>12}  {'rows/read':>10}",
            *(_line(each, f"{each.strategy}: {_how(each)}") for each in self.predictions),
            "",
            "hybrid with more or less memory, and pages that suit it:",
            *(_line(each, f"{memory / 1e6:g} MB") for memory, each in self.what_if.items()),
            "",
            f"without skew, pages of {self.best_page_rows:,} rows are best (page_rows)",
        ]


class UnpagedError(ConfigError):
    """A relation has no pages, so strategies cannot be compared."""


def forecast(
    pipeline: Pipeline, relation: str | None, memory: int | None, batch_rows: int, exponent: float
) -> Forecast:
    """Measure the relation of a lookup and predict the yield of each strategy that has costs.

    Args:
        pipeline: the pipeline.
        relation: the relation that is looked up; `None` if there is only one.
        memory: bytes of waiting rows; `None` takes the memory of the lookup.
        batch_rows: stream rows of a batch.
        exponent: the exponent of the Zipf distribution of the stream's keys; 0 is uniform.

    Raises:
        UnpagedError: the relation is read by lists of keys alone.
        ConfigError: there is no such lookup, or the relation cannot be read as declared, or is empty.
        RelationUnreachableError: the database does not answer.
    """
    lookup = _lookup(pipeline, relation)
    reader = SqlRelation(pipeline.relations[lookup.relation])
    reader.check(unique=False)
    directory = reader.directory(lookup.page_rows)
    if directory.unpaged is not None:
        raise UnpagedError(f"the lookup is not predicted: {directory.unpaged}")
    try:
        costs = calibrate(reader, directory, payload=_payload(pipeline, lookup))
    except ValueError as error:
        raise ConfigError(f"relation {lookup.relation}: {error}, so there is nothing to measure") from None
    some = reader.pages([directory.range_of(0)])
    setup = Setup(
        relation_rows=len(directory) * lookup.page_rows if len(directory) > 1 else some.num_rows,
        page_rows=lookup.page_rows,
        row_bytes=max(1, int(some.nbytes) // some.num_rows),
        waiting_bytes=_BESIDE + _payload(pipeline, lookup),
        memory=lookup.memory if memory is None else memory,
        exponent=exponent,
        batch_rows=batch_rows,
        scattered=True,
    )
    memories = [int(setup.memory * factor) for factor in _WHAT_IF]
    setups = {each: replace(setup, memory=each) for each in memories}
    by_memory = {each: lookup_model.predict(costs, its) for each, its in setups.items()}
    return Forecast(
        lookup.relation,
        lookup.page_rows,
        setup,
        costs,
        by_memory[setup.memory],
        min(setup.relation_rows, lookup_model.best_page_rows(costs, setup)),
        lookup_model.what_if(costs, setup, memories),
        by_memory,
    )


def _lookup(pipeline: Pipeline, relation: str | None) -> Lookup:
    found = [each for each in pipeline.lookups if relation in (None, each.relation)]
    if len(found) != 1:
        there = ", ".join(each.relation for each in pipeline.lookups) or "none"
        raise ConfigError(f"name one of the relations that are looked up, by --relation; there are: {there}")
    return found[0]


def _payload(pipeline: Pipeline, lookup: Lookup) -> int:
    """Return the bytes of a row that is looked up, estimated from the types of its columns."""
    given = pipeline.stream_of(lookup.relation)
    origins = pipeline.stage_of(given).columns.origins_of(given).values()
    return sum(_BYTES.get(kind.domain, 8) for columns in origins for kind in columns.values())


def _line(found: Prediction, what: str) -> str:
    return f"{found.rate:12,.0f}  {found.rows_per_read:10,.1f}  {what}"


def _how(found: Prediction) -> str:
    """Describe what a strategy reads, and whether rows wait for the read."""
    reads = STRATEGIES[found.strategy.removesuffix(AT_ONCE)].reads
    return f"{reads}; the others wait in memory" if found.strategy in WAITING else f"{reads}; none waits"
