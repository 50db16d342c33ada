"""A small world with some of everything, and Delta tables of it that can be wrong on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.report import VerifyReport
from endmark.verify.verification import verify_records
from support.verify_came import Expected
from support.verify_oracle import recompute
from support.verify_places import seed_sellers, to_kafka, write_table
from support.verify_recompute import sellers_of
from support.verify_world import Record, bid, close, item, make_pipeline, raw

TABLES = ("results", "groups", "dead_letters", "violations", "punctuations")
RECORDS: list[Record] = [
    *[item(key, 1) for key in range(4)],
    *[bid(key, 2, seller=1 + seller) for key in range(4) for seller in range(4)],
    *[close(stream, key) for key in (0, 1, 2) for stream in ("items", "bids")],
    bid(0, 3),
    bid(1, 3),
    bid(3, 0),
    item(3, 0.5),
    raw("bids", b"\xff\x00"),
    raw("bids", b"", 1),
    raw("items", None),
    raw("items", b'{"item_id": 1}'),
    item(5, 4),
    close("bids", 5),
    bid(7, 4),
    close("items", 7),
]


REASONS = {b"\xff\x00": "not_utf8", b"": "empty", b'{"item_id": 1}': "missing_field"}


class Warehouse:
    """Delta tables that can be wrong on purpose: the right rows, changed, and then verified."""

    def __init__(self, directory: Path, kind: JoinType = JoinType.INNER, **looking: Any) -> None:
        self.path = directory / "warehouse"
        url = f"sqlite:///{directory / 'r.db'}"
        self.pipeline: Pipeline = make_pipeline(url, kind=kind, looking=looking)
        sellers = sellers_of(self.pipeline)
        seed_sellers(url, sellers)
        self.rows: Expected = recompute(self.pipeline, RECORDS, sellers)
        letters = self.rows.dead_letters
        letters[:] = [(*row[:3], REASONS.get(row[5], row[3]), *row[4:]) for row in letters]

    def verify(self) -> VerifyReport:
        shutil.rmtree(self.path, ignore_errors=True)
        for table in TABLES:
            if getattr(self.rows, table):
                write_table(self.pipeline, self.path, table, getattr(self.rows, table))
        return self.check()

    def check(self) -> VerifyReport:
        return verify_records(self.pipeline, *to_kafka(RECORDS), self.path)
