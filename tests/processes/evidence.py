"""Keeps what a job leaves, where its tables are wrong: a seed repeats the faults, but not their moments."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from endmark.verify.read.consume import SCHEMA, Log
from endmark.verify.report import VerifyReport
from processes.rig import Rig

PLACE = Path(__file__).parents[2] / "var" / "faults"


def keep(rig: Rig, report: VerifyReport) -> Path:
    """Copy a rig's files to a new directory in `PLACE`, and return the directory.

    It has the job's disk, all logs, the ops database, the verification as `report.json`, the relation as
    `relation.parquet`, and what Kafka holds as `records.parquet`, which `verify_records` reads.
    """
    place = PLACE / f"{rig.name}-{rig.seed}-{time.strftime('%m%dT%H%M%S')}"
    place.mkdir(parents=True)
    (place / "report.json").write_text(report.to_json())
    for file in rig.directory.iterdir():
        if file.is_file():
            shutil.copy(file, place)
    shutil.copytree(rig.disk("job"), place / "disk-job")
    with rig.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT * FROM sellers")).mappings().all()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), place / "relation.parquet")
    pipeline = rig.warehouse.load()
    topics, control, whole = sorted(rig.topics), pipeline.control_topic, pipeline.whole_topics
    with (
        Log(rig.broker.bootstrap, topics, maybe=[control], whole=whole) as log,
        pq.ParquetWriter(place / "records.parquet", SCHEMA) as records,
    ):
        for batch in log.batches():
            records.write_batch(batch)
    return place
