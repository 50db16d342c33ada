"""Tables and checkpoints behind a real S3 server: commits, files, upkeep, and what goes wrong."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from endmark.driver.checkpoint import (
    KnownTable,
    app_id_of,
    claimed,
    keep_start_offsets,
    know_tables,
    known_tables,
    next_batch,
    pin,
    start_offsets,
)
from endmark.driver.migration import Migration, OldTable
from endmark.driver.planned_batches import planned_ends, unfinished_batch
from endmark.driver.settings import settings
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import write_files
from endmark.engine.delta_log import commit_files
from endmark.errors import ConfigError, MissingPartError
from endmark.maintenance import maintain
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.tables import Target, prepare
from endmark.storage import (
    StoreUrl,
    delta_table,
    entries,
    location,
    read_parquet,
    remove,
    write_parquet,
    write_text,
)
from endmark.store_claim import store_claimed
from support.s3_door import LOSE, REFUSE, SLOW_DOWN, Door, Harm
from support.s3_server import S3Server
from support.upserted_table import KEY, SCHEMA, Row, group

WEEK = timedelta(days=7)
SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as running:
        running.make_bucket("tables")
        yield running


@pytest.fixture
def warehouse(server: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    """The URL of an empty directory of a test's own, since a client is kept by its URL."""
    reach(server, monkeypatch)
    found = location(f"s3://tables/{request.node.name}")
    assert isinstance(found, StoreUrl)
    return found


def reach(server: S3Server, monkeypatch: pytest.MonkeyPatch, endpoint: str | None = None) -> None:
    for name, value in server.environment(endpoint).items():
        monkeypatch.setenv(name, value)


def prepared(
    warehouse: StoreUrl, checkpoint: Path, name: str = "results", key: tuple[str, ...] = ()
) -> Target:
    partitions = ("final",) if key else ()
    target = Target("running", warehouse / name, SCHEMA, numbered=True, partition_by=partitions, key=key)
    with claimed(checkpoint):
        prepare({name: target}, "app", checkpoint)
    return target


def write(target: Target, rows: list[Row], batch: int) -> None:
    """A batch, by a job that has just been started."""
    files = write_files(target.files(), pa.Table.from_pylist(rows, SCHEMA))
    TableLog(target.files(), target.key, "app").commit(files, batch)


def rows(target: Target) -> list[Row]:
    table = delta_table(target.path)
    assert table is not None
    found: list[Row] = table.to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["item"], row["batch"]))


def test_of_writers_of_one_version_one_alone_commits(warehouse: StoreUrl, tmp_path: Path) -> None:
    target = prepared(warehouse, tmp_path / "checkpoint")
    files = write_files(target.files(), pa.Table.from_pylist([group(1, 0)], SCHEMA))
    writers = [DeltaTable(str(target.path)) for _ in range(4)]
    for turn in range(10):
        for writer in writers:
            writer.update_incremental()
            assert writer.version() == turn
        won: list[int] = []
        ready = threading.Barrier(len(writers))

        def commit(writer: DeltaTable, ready: threading.Barrier = ready, won: list[int] = won) -> None:
            ready.wait()
            try:
                commit_files(writer, files, transactions=(), retries=0)
                won.append(writer.version())
            except CommitFailedError:
                pass

        threads = [threading.Thread(target=commit, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1, f"{len(won)} writers have committed version {turn + 1}"


@pytest.mark.parametrize("key", [(), KEY])
def test_a_batch_is_committed_once(warehouse: StoreUrl, tmp_path: Path, key: tuple[str, ...]) -> None:
    """It is repeated after a crash, which leaves files that no version has."""
    target = prepared(warehouse, tmp_path / "checkpoint", key=key)
    write(target, [group(1, 0), group(2, 0)], 0)
    write(target, [group(2, 1)], 1)
    write(target, [group(2, 1)], 1)

    old = [] if key else [group(2, 0)]
    assert rows(target) == [group(1, 0), *old, group(2, 1)]


@pytest.mark.parametrize("key", [(), KEY])
def test_a_lost_answer_to_a_commit(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: tuple[str, ...]
) -> None:
    """The client tries again, and the store refuses this, since the version is there already."""
    with Door(server, tmp_path, Harm(LOSE, rf"PUT .*/{1:020}\.json", 1)) as door:
        reach(server, monkeypatch, door.endpoint)
        warehouse = StoreUrl(f"s3://tables/lost-{len(key)}")
        target = prepared(warehouse, tmp_path / "checkpoint", key=key)
        write(target, [group(1, 0)], 0)
        write(target, [group(2, 1)], 1)
        assert len(door.harmed) == 1
        assert rows(target) == [group(1, 0), group(2, 1)]
        table = delta_table(target.path)
        assert table is not None
        assert table.version() == 2


def test_a_store_that_is_too_busy_for_a_while(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = 12  # more than the client tries by default
    with Door(server, tmp_path, Harm(SLOW_DOWN, ".*", times)) as door:
        reach(server, monkeypatch, door.endpoint)
        target = prepared(StoreUrl("s3://tables/busy"), tmp_path / "checkpoint")
        write(target, [group(1, 0)], 0)
        assert rows(target) == [group(1, 0)]
        assert len(door.harmed) == times


def no_bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    reach(server, monkeypatch)
    return StoreUrl("s3://nowhere/tables")


def wrong_secret(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    reach(server, monkeypatch)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    return StoreUrl("s3://tables/wrong-secret")


def wrong_key(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    reach(server, monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "canary")
    return StoreUrl("s3://tables/wrong-key")


def no_tls(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    reach(server, monkeypatch)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    return StoreUrl("s3://tables/no-tls")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (no_bucket, "its bucket is not there; make the bucket"),
        (wrong_secret, "the store refuses the credentials (SignatureDoesNotMatch)"),
        (wrong_key, "the store refuses the credentials (InvalidAccessKeyId)"),
        (no_tls, "AWS_ENDPOINT_URL has no TLS; name a URL with https, or set AWS_ALLOW_HTTP=true"),
    ],
)
def test_what_is_wrong_is_said_before_a_job_starts(
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wrong: Callable[[S3Server, pytest.MonkeyPatch], StoreUrl],
    why: str,
) -> None:
    warehouse = wrong(server, monkeypatch)
    with pytest.raises(MissingPartError) as told:
        prepared(warehouse, tmp_path / "checkpoint")
    assert f"{warehouse}/results: {why}" in str(told.value)
    assert "canary" not in str(told.value)


def test_credentials_that_may_only_read(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reach(server, monkeypatch)
    warehouse = StoreUrl("s3://tables/read-only")
    there = prepared(warehouse, tmp_path / "other", "there")
    write(there, [group(1, 0)], 0)
    with Door(server, tmp_path, Harm(REFUSE, "(PUT|POST|DELETE) .*", 1_000)) as door:
        reach(server, monkeypatch, door.endpoint)
        assert rows(there) == [group(1, 0)]
        for doing in (
            lambda: prepared(warehouse, tmp_path / "checkpoint"),
            lambda: write_parquet(warehouse / "results", "part-1.parquet", pa.table({"a": [1]})),
        ):
            with pytest.raises(MissingPartError, match="s3://tables/read-only/results: the credentials lack"):
                doing()


def test_credentials_of_a_profile(
    warehouse: StoreUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are found with an endpoint of one's own, too."""
    key, secret = (os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text(f"[shop]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(MissingPartError, match="results: there are no credentials; set AWS_ACCESS_KEY_ID"):
        prepared(warehouse, tmp_path / "checkpoint")
    monkeypatch.setenv("AWS_PROFILE", "shop")
    target = prepared(warehouse, tmp_path / "checkpoint")
    write(target, [group(1, 0)], 0)
    assert rows(target) == [group(1, 0)]


def test_a_store_that_is_away(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_port: int
) -> None:
    """Other threads go on while a table is looked for, such as those that serve the dashboard."""
    reach(server, monkeypatch, f"http://127.0.0.1:{free_port}")
    turns, ended = [0], threading.Event()

    def turn() -> None:
        while not ended.wait(0.1):
            turns[0] += 1

    other = threading.Thread(target=turn)
    other.start()
    with pytest.raises(MissingPartError, match="s3://tables/away/results: the store does not answer"):
        prepared(StoreUrl("s3://tables/away"), tmp_path / "checkpoint")
    ended.set()
    other.join()
    assert turns[0] > 20


def test_a_file_of_several_parts_comes_and_goes(warehouse: StoreUrl) -> None:
    """The client sends a large file in parts of 5 MB or more."""
    numbers = pa.table({"a": pa.array(range(3_000_000)), "b": pa.array(range(3_000_000), pa.float64())})
    size = write_parquet(warehouse, "part-1.parquet", numbers)
    assert size > 10 << 20
    assert read_parquet(warehouse, "part-1.parquet", pa.schema([("b", pa.float64())])) == numbers.select(
        ["b"]
    )
    assert entries(warehouse).keys() == {"part-1.parquet"}
    remove(warehouse, ["part-1.parquet", "part-2.parquet"])
    assert entries(warehouse) == {}


def test_upkeep(warehouse: StoreUrl, server: S3Server, tmp_path: Path) -> None:
    """Small files are merged, and a maintenance claims the tables while it runs."""
    target = prepared(warehouse, tmp_path / "checkpoint")
    for batch in range(3):
        write(target, [group(batch, batch)], batch)
    before = rows(target)
    with (
        store_claimed(warehouse / ".maintenance"),
        pytest.raises(MissingPartError, match=r"maintenance: another one runs beside .* \(process \d+ of "),
    ):
        maintain(SPEC, warehouse, WEEK, dry_run=False)
    [done] = maintain(SPEC, warehouse, WEEK, dry_run=False)
    [again] = maintain(SPEC, warehouse, WEEK, dry_run=False)

    assert (done.table, done.small_files, done.put_together) == ("results", 3, 3)
    assert (again.small_files, again.put_together) == (1, 0)
    assert rows(target) == before


def test_of_two_claims_at_once_one_alone_holds(warehouse: StoreUrl) -> None:
    ready, done = threading.Barrier(4), threading.Event()
    held: list[int] = []
    refused: list[int] = []

    def claim() -> None:
        ready.wait()
        try:
            with store_claimed(warehouse / ".maintenance"):
                held.append(1)
                done.wait(30)
        except MissingPartError:
            refused.append(1)
            if len(refused) == 3:
                done.set()

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)


def test_a_checkpoint(warehouse: StoreUrl) -> None:
    """Its files are what they are on a file system, and a migration puts all of it aside."""
    checkpoint = warehouse / "checkpoint"
    assert app_id_of(checkpoint) is None
    with claimed(checkpoint) as app_id:
        with claimed(checkpoint) as again:
            assert again == app_id == app_id_of(checkpoint)
        assert (next_batch(checkpoint), known_tables(checkpoint), start_offsets(checkpoint)) == (0, {}, {})
        pin(checkpoint, settings(SPEC, 2), warehouse)
        pin(checkpoint, settings(SPEC, 2), warehouse)
        with pytest.raises(ConfigError, match="buckets was 2, is 3"):
            pin(checkpoint, settings(SPEC, 3), warehouse)
        know_tables(checkpoint, {"results": KnownTable("1", "s3://tables/results")})
        keep_start_offsets(checkpoint, {"bids": {"0": 5}})
        for batch in range(12):
            ends = json.dumps({"bids": {"0": 10 * batch, "1": 7}})
            write_text(checkpoint / "spark", f"offsets/{batch}", f"v1\n{{}}\n{ends}")
            if batch < 11:
                write_text(checkpoint / "spark", f"commits/{batch}", "v1\n{}")

        assert next_batch(checkpoint) == 11
        assert known_tables(checkpoint) == {"results": KnownTable("1", "s3://tables/results")}
        assert start_offsets(checkpoint) == {"bids": {"0": 5}}
        assert planned_ends(checkpoint / "spark") == {"bids": {"0": 110, "1": 7}}
        assert unfinished_batch(checkpoint / "spark") == "batch 11 (bids/0 offsets 100 to 109)"
        before = entries(checkpoint, below=True).keys()
        Migration(checkpoint, warehouse, "before", 11, (), (), (), ()).put_aside()

    assert entries(checkpoint, below=True).keys() == {f"before/{name}" for name in before}
    assert app_id_of(checkpoint) is None


@pytest.mark.parametrize("moved", range(5))
def test_a_checkpoint_is_put_aside_in_two_goes(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moved: int
) -> None:
    """The first is cut off after some of its five files. What is left has an app id and a format, or no app
    id."""
    with Door(server, tmp_path, Harm(REFUSE, "DELETE .*|POST /tables\\?delete.*", 1, after=moved)) as door:
        reach(server, monkeypatch, door.endpoint)
        checkpoint = StoreUrl(f"s3://tables/two-goes-{moved}")
        with claimed(checkpoint) as app_id:
            pin(checkpoint, settings(SPEC, 2), checkpoint)
            know_tables(checkpoint, {"results": KnownTable("1", "s3://tables/results")})
            write_text(checkpoint / "spark", "metadata", "{}")
        files = entries(checkpoint, below=True).keys()
        migration = Migration(checkpoint, checkpoint, "before", 0, (), (), (), ())
        with pytest.raises(MissingPartError, match="lack a right"):
            migration.put_aside()

        assert app_id_of(checkpoint) == (app_id if moved < 4 else None)
        migration.put_aside()
        assert len(files) == 5
        assert entries(checkpoint, below=True).keys() == {f"before/{name}" for name in files}


def test_tables_put_aside(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A migration that is cut off on the way goes on where it ended."""
    with Door(server, tmp_path, Harm(REFUSE, "DELETE .*|POST /tables\\?delete.*", 1, after=2)) as door:
        reach(server, monkeypatch, door.endpoint)
        warehouse = StoreUrl("s3://tables/aside")
        target = prepared(warehouse, tmp_path / "checkpoint")
        for batch in range(3):
            write(target, [group(batch, batch)], batch)
        before, files = rows(target), entries(target.path, below=True).keys()
        assert sum(name.endswith(".parquet") for name in files) == 3
        old = (OldTable("results", 3, stays=True),)
        migration = Migration(tmp_path / "checkpoint", warehouse, "before", 3, (), (), old, ())
        with pytest.raises(MissingPartError, match="lack a right"):
            migration.put_aside()
        left = delta_table(target.path)
        assert left is not None
        assert left.version() == 3
        assert (tmp_path / "checkpoint" / "endmark").exists()
        migration.put_aside()

        assert entries(target.path, below=True) == {}
        assert entries(warehouse / "before" / "results", below=True).keys() == files
        moved = delta_table(warehouse / "before" / "results")
        assert moved is not None
        assert moved.to_pyarrow_table().num_rows == len(before)
