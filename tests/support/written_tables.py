"""Delta tables of a pipeline in any layout: each batch is committed as the sink does it, and read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import FileTable, write_files
from endmark.pipeline import Pipeline
from endmark.pipeline.tables import FINAL
from endmark.spark.tables import prepare, targets
from support.bucket_tasks import Tables


@st.composite
def laid_out(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline, whose tables are partitioned by any columns that a table may be."""
    for name, table in pipeline.tables.items():
        columns = pipeline.outputs.columns_of(pipeline.outputs.role_of(name, table))
        able = [
            column
            for column, kind in columns.items()
            if not (kind.many or kind.scale or kind.domain is Domain.DOUBLE or column == FINAL)
        ]
        by = draw(st.lists(st.sampled_from(able), max_size=2, unique=True))
        document = pipeline.model_dump(by_alias=True)
        document["tables"][name]["partition_by"] = by
        try:
            pipeline = Pipeline.model_validate(document)
        except ValueError:
            continue
    return pipeline


class WrittenTables:
    """The tables of a pipeline in a directory, without a job. Two tasks write the files of a batch."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        self._targets = {target.channel: target for target in targets(pipeline, directory)}
        checkpoint = directory / "checkpoint"
        with claimed(checkpoint):
            prepare(self._targets, "app", checkpoint)
        self._logs = {
            channel: TableLog(target.files(), target.key, "app") for channel, target in self._targets.items()
        }

    def commit(self, tables: Tables, batch: int) -> None:
        """Commit the rows of a batch, by channel. A table that gets none has no new version."""
        for channel, target in self._targets.items():
            files = _written(target.files(), tables[channel])
            deleted = [
                file
                for gone, table in target.deleted_files().items()
                for file in _written(table, tables[gone])
            ]
            if files or deleted:
                self._logs[channel].commit(files, batch, deleted)

    def read(self) -> Tables:
        """The rows of all tables, by channel."""
        return {
            channel: DeltaTable(str(target.path)).to_pyarrow_table().to_pylist()
            for channel, target in self._targets.items()
        }


def _written(table: FileTable, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    shares = [pa.Table.from_pylist(share, table.schema) for share in (rows[::2], rows[1::2]) if share]
    return [file for share in shares for file in write_files(table, share)]
