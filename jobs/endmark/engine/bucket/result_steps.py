"""The row steps behind the join of a bucket, and what they have left out.

A result is made of several records, so none of them is a dead letter if an expression fails on it: the result
is left out and counted, as a pair is on which the condition of a join fails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from endmark.expressions.condition_failures import Failures
from endmark.metrics import sample
from endmark.pipeline import COORDINATES

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.expressions.row_steps import Failure, RowStep
    from endmark.pipeline.stage import Stage


@dataclass(frozen=True)
class ResultPlan:
    """The plan of the row steps behind a join.

    Args:
        steps: the steps, in order; none if the join has none.
        streams: the streams whose coordinates results have.
    """

    steps: tuple[RowStep, ...] = ()
    streams: tuple[str, ...] = ()

    @classmethod
    def of(cls, stage: Stage) -> Self:
        """Make the plan of a stage."""
        return cls(stage.columns.row_steps, stage.shown)


class ResultSteps:
    """Runs the row steps behind a join on the results of one batch.

    Attributes:
        samples: the metrics of these results.

    Args:
        plan: the plan of the steps.
    """

    def __init__(self, plan: ResultPlan) -> None:
        self._plan = plan
        self._failures: dict[str, Failures] = {}
        self.samples: Counter[str] = Counter()

    def through(self, results: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results that are left, with the columns behind the last step."""
        if not self._plan.steps:
            return results
        # DuckDB takes a tenth of a second to import, and few joins have row steps.
        from endmark.expressions.row_steps import by_field, run

        stepped = run(self._plan.steps, results)
        for step, filtered in stepped.filtered.items():
            self.samples[sample("filtered_results_total", step=step)] += filtered
        for field, failed in by_field(stepped.failures):
            self._note(field, failed, results)
        self.samples[sample("step_rows_total", step=self._plan.steps[-1].name)] += stepped.rows.num_rows
        return stepped.rows

    def reports(self) -> list[dict[str, Any]]:
        """Return a report for the sink on each expression that has failed."""
        return [report for failures in self._failures.values() for report in failures.reports()]

    def _note(self, field: str, failed: list[Failure], results: pa.RecordBatch) -> None:
        """Count the results on which an expression has failed; the first one stands for all of them."""
        first = failed[0]
        self._failures.setdefault(field, Failures(field)).add(
            len(failed), first.why, self._coordinates(results, first.at)
        )
        step = field.split(".")[1]
        self.samples[sample("failed_results_total", step=step)] += len(failed)

    def _coordinates(self, results: pa.RecordBatch, at: int) -> list[dict[str, Any]]:
        """Return the coordinates of the records that a result is made of."""
        partition, offset = COORDINATES
        found = [
            {
                "stream": stream,
                "partition": results.column(f"{stream}_{partition}")[at].as_py(),
                "offset": results.column(f"{stream}_{offset}")[at].as_py(),
            }
            for stream in self._plan.streams
        ]
        return [each for each in found if each["partition"] is not None]
