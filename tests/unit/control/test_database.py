"""The ops database: batches that are repeated, amended, or begun anew."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from endmark.control import database, forecasts, ops_access, sign_of_life, tables
from endmark.control.database import LOST_SECONDS, OpsDatabase, TakenError, offsets_read
from endmark.control.sign_of_life import SignsOfLife
from endmark.control.tables import META, runs
from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError, MissingPartError, UnreachableError
from endmark.stored_text import storable
from support.ops_job import forecast_of, join_forecast_of
from support.postgresql import PostgreSql


@pytest.fixture(params=["sqlite", "mariadb"])
def ops(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpsDatabase]:
    on_server = request.param == "mariadb"
    url = request.getfixturevalue("mariadb").url if on_server else f"sqlite:///{tmp_path / 'ops.db'}"
    database = OpsDatabase(url)
    yield database
    if on_server:
        META.drop_all(database.engine)
    database.close()


@pytest.fixture(params=["sqlite", "mariadb", "mysql", "postgresql"])
def server_ops(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpsDatabase]:
    """An ops database of each kind."""
    on_server = request.param != "sqlite"
    url = request.getfixturevalue(request.param).url if on_server else f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as opened:
        yield opened
        META.drop_all(opened.engine)


def record(ops: OpsDatabase, batch_id: int, rows: float, run: str = "run") -> None:
    samples = {"records_total{stream=bids}": rows, "state_rows{operator=join,stream=bids}": rows}
    ops.record_batch("auction", batch_id, run, samples, {"bids": {"0": batch_id}})


def totals(ops: OpsDatabase) -> dict[str, float]:
    batch = ops.latest_batch("auction")
    assert batch is not None
    return batch.totals


def test_a_forecast_takes_the_place_of_the_one_before(ops: OpsDatabase) -> None:
    assert forecasts.newest_forecasts(ops, "auction") == ([], None)
    for forecast in (forecast_of("sellers", fastest=1.0), newest := forecast_of("sellers")):
        forecasts.store(ops, "auction", forecast)
    # A relation may have the name under which the join's forecast is stored.
    forecasts.store(ops, "auction", named := forecast_of("join"))
    for rows in (1.0, 20_000.0):
        forecasts.store(ops, "auction", join := join_forecast_of(rows))

    assert forecasts.newest_forecasts(ops, "auction") == ([named, newest], join)


def test_repeated_batch_counts_once(ops: OpsDatabase) -> None:
    """A batch that is run again keeps its first figures, so no counter grows twice or goes backwards."""
    ops.start_run("run", "auction", "app", "/checkpoint")
    record(ops, 0, 10)
    record(ops, 1, 5)
    ops.set_run_state("run", "failed")
    ops.start_run("next", "auction", "app", "/checkpoint")
    record(ops, 1, 3, run="next")

    repeated = ops.latest_batch("auction")
    assert repeated is not None
    assert repeated.run_id == "next"
    assert totals(ops) == {"records_total{stream=bids}": 15, "state_rows{operator=join,stream=bids}": 5}

    record(ops, 2, 1, run="next")
    ops.set_run_state("next", "failed")
    ops.start_run("other", "auction", "another checkpoint", "/other")
    record(ops, 1, 3, run="other")

    assert totals(ops) == {"records_total{stream=bids}": 13, "state_rows{operator=join,stream=bids}": 3}


def test_old_runs_are_removed(ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of other pipelines stay."""
    monkeypatch.setattr(database, "KEPT_RUNS", 2)
    for number in range(4):
        for pipeline in ("auction", "orders")[: 2 if number == 0 else 1]:
            ops.start_run(f"{pipeline}-{number}", pipeline, "app", "/checkpoint")
            ops.set_run_state(f"{pipeline}-{number}", "done")

    with ops.engine.connect() as connection:
        kept = connection.execute(sa.select(runs.c.run_id)).scalars().all()
    assert sorted(kept) == ["auction-2", "auction-3", "orders-0"]


def test_new_checkpoint_begins_anew(ops: OpsDatabase) -> None:
    """Batch ids that start at 0 again do not hide behind those of the checkpoint before."""
    for batch_id in range(3):
        record(ops, batch_id, 10)
    record(ops, 0, 1)

    assert [batch.batch_id for batch in ops.batches_after("auction", -1, 10)] == [0]
    assert totals(ops)["records_total{stream=bids}"] == 1


def test_a_batch_goes_on_where_the_one_before_it_ended(ops: OpsDatabase) -> None:
    """One that is repeated, or that a new checkpoint begins with, knows nothing of batches beyond it."""
    for batch_id in range(3):
        record(ops, batch_id, 10)

    ends = [ops.offsets_before("auction", batch_id) for batch_id in range(4)]
    assert ends == [{}, {"bids": {"0": 0}}, {"bids": {"0": 1}}, {"bids": {"0": 2}}]
    assert ops.offsets_before("orders", 3) == {}


HARD = "half a pair: \ud800, NUL: \0, beyond 16 bits: \U0001f600, and long: " + 100_000 * "x"


@pytest.mark.parametrize("server", ["sqlite", "mariadb", "mysql", "postgresql"])
def test_what_records_and_people_wrote_is_stored_on_each_server(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever it is; where the database has a small character set of its own, too."""
    url = f"sqlite:///{tmp_path / 'ops.db'}" if server == "sqlite" else request.getfixturevalue(server).url
    with closing(sa.create_engine(url).connect()) as connection:
        if server in ("mariadb", "mysql"):
            connection.execute(sa.text("ALTER DATABASE CHARACTER SET latin1"))
    nested: Any = 1
    for _ in range(40):
        nested = [nested]
    values = [HARD, nested, {HARD: 1}, 1e400, -(10**400), 2**63, 7, 1.5, True, None, "scan"]
    at = datetime.now(UTC).timestamp()
    with closing(OpsDatabase(url)) as ops:
        rows = [
            {"partition": 0, "offset": offset, "set_at": at, "by": HARD, "name": HARD, "value": value}
            | {"refused": HARD, "why": HARD}
            for offset, value in enumerate(values)
        ]
        ops.record_turns("auction", 3, rows, {})
        ops.record_turns("auction", 3, rows, {})
        ops.start_run("run", "auction", "app", "/checkpoint")
        ops.set_run_state("run", "failed", HARD)

        kept, run = ops.turns("auction"), ops.latest_run("auction")
        META.drop_all(ops.engine)
        if server in ("mariadb", "mysql"):
            with ops.engine.begin() as connection:
                connection.execute(sa.text("ALTER DATABASE CHARACTER SET utf8mb4"))

    begins = r"half a pair: \ud800, NUL: \x00, beyond 16 bits: " + "\U0001f600, and long: xxx"
    assert [turn["value"] for turn in kept][3:] == [
        "inf",
        storable(hex(-(10**400))),
        "0x8000000000000000",
        7,
        1.5,
        True,
        None,
        "scan",
    ]
    assert run is not None
    for text in [run["error"], *(turn[name] for turn in kept for name in ("by", "name", "refused", "why"))]:
        assert text.startswith(begins)
        assert text.endswith("x…")


def test_duration_is_added_after_the_commit(ops: OpsDatabase) -> None:
    """Figures that are known only later join their batch. A batch that is gone is no error."""
    record(ops, 0, 10)
    ops.amend_batch("auction", 0, {"batch_seconds{phase=total}": 1.5}, {"items": {"0": 4, "1": 0}})
    ops.amend_batch("auction", 9, {"batch_seconds{phase=total}": 1.5}, {})

    assert totals(ops)["batch_seconds{phase=total}"] == 1.5
    assert ops.offsets_before("auction", 1) == {"bids": {"0": 0}, "items": {"0": 4, "1": 0}}
    assert totals(ops)["records_total{stream=bids}"] == 10


def test_runs_of_other_pipelines_stay_apart(ops: OpsDatabase) -> None:
    """The latest run is the pipeline's own."""
    ops.start_run("mine", "auction", "app", "/checkpoint")
    ops.start_run("other", "orders", "app", "/checkpoint")
    ops.set_run_state("mine", "failed", "the cause")

    run = ops.latest_run("auction")
    assert run is not None
    assert (run["run_id"], run["state"], run["error"]) == ("mine", "failed", "the cause")
    assert ops.latest_run("none") is None


def grow_old(ops: OpsDatabase, run_id: str, seconds: float) -> None:
    """Let the last sign of life of a run be so much older, or of the future."""
    with ops.engine.begin() as connection:
        mine = runs.update().where(runs.c.run_id == run_id)
        connection.execute(mine.values(alive_at=runs.c.alive_at - seconds))


def test_without_a_lock_a_checkpoint_has_one_job(ops: OpsDatabase) -> None:
    """In an object store, a job that was killed keeps its checkpoint as long as it could be alive."""
    url = "s3://shop/checkpoint"
    ops.start_run("first", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="another job named auction runs already"):
        ops.start_run("second", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="another job named auction runs already"):
        ops.require_stopped("auction")

    grow_old(ops, "first", LOST_SECONDS + 5)
    ops.require_stopped("auction")
    ops.require_last("first")
    ops.start_run("second", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="has gone on from this checkpoint"):
        ops.require_last("first")
    ops.require_last("second")
    ops.set_run_state("second", "stopped")
    ops.require_stopped("auction")


def test_a_name_is_taken_while_its_job_lives(ops: OpsDatabase) -> None:
    """A job of another checkpoint is refused while the first one lives, and gets its place when that one has
    ended or gives no sign of life. One that was killed starts again on its checkpoint at once."""
    ops.start_run("first", "auction", "app-1", "/checkpoints/1")
    ops.start_run("restarted", "auction", "app-1", "/checkpoints/1")
    ops.start_run("orders", "orders", "app-2", "/checkpoints/2")
    for old in (0, LOST_SECONDS - 5):
        grow_old(ops, "first", 1000)
        grow_old(ops, "restarted", old)
        with pytest.raises(MissingPartError) as refused:
            ops.start_run("other", "auction", "app-2", "/checkpoints/2")
        assert f"process {os.getpid()} on {socket.gethostname()}, checkpoint /checkpoints/1" in str(
            refused.value
        )
    ops.sign_of_life("restarted")
    with pytest.raises(MissingPartError, match=r"its last sign of life is \d s old"):
        ops.start_run("other", "auction", "app-2", "/checkpoints/2")
    assert ops.latest_run("auction")["run_id"] == "restarted"  # type: ignore[index]

    grow_old(ops, "restarted", LOST_SECONDS + 5)
    ops.start_run("other", "auction", "app-2", "/checkpoints/2")
    ops.set_run_state("other", "stopped")
    ops.start_run("third", "auction", "app-3", "/checkpoints/3")
    grow_old(ops, "third", -10_000)
    ops.start_run("fourth", "auction", "app-4", "/checkpoints/4")
    assert [_state(ops, run) for run in ("first", "restarted", "other")] == [
        "starting",
        "starting",
        "stopped",
    ]


def test_a_killed_run_that_was_followed_by_another_takes_no_name(ops: OpsDatabase) -> None:
    """However young its last sign of life is: the other one got the lock of their checkpoint."""
    ops.start_run("killed", "auction", "app-1", "/checkpoints/1")
    with ops.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at - 1))
    ops.start_run("follower", "auction", "app-1", "/checkpoints/1")
    ops.set_run_state("follower", "stopped")
    ops.start_run("other", "auction", "app-2", "/checkpoints/2")

    assert [_state(ops, run) for run in ("killed", "follower", "other")] == [
        "starting",
        "stopped",
        "starting",
    ]


def _state(ops: OpsDatabase, run_id: str) -> str:
    with ops.engine.connect() as connection:
        found = connection.execute(sa.select(runs.c.state).where(runs.c.run_id == run_id))
        return str(found.scalar_one())


def test_a_run_that_starts_after_the_clock_was_put_back_is_the_latest(ops: OpsDatabase) -> None:
    """A clock that was an hour ahead hid the runs of that hour, and stopped those with a checkpoint in S3."""
    ops.start_run("ahead", "auction", "app", "s3://shop/checkpoint", locked=False)
    ops.set_run_state("ahead", "failed", "the machine was restarted")
    with ops.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at + 3600))
    ops.start_run("next", "auction", "app", "s3://shop/checkpoint", locked=False)

    latest = ops.latest_run("auction")
    assert latest is not None
    assert latest["run_id"] == "next"
    ops.require_last("next")
    with pytest.raises(TakenError, match="has gone on from this checkpoint"):
        ops.require_last("ahead")


def test_of_jobs_that_start_together_one_gets_the_name(ops: OpsDatabase) -> None:
    """Only one starts, even if the pipeline had no run before."""
    together = Barrier(4)

    def started(number: int) -> bool:
        together.wait()
        try:
            ops.start_run(f"run-{number}", "auction", f"app-{number}", "/checkpoint")
        except MissingPartError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(started, range(4))) == 1


def test_old_turns_are_removed_but_for_values_that_hold(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A knob that was turned once keeps its value. A program that turned another one 100,000 times made each
    answer about knobs take 3.5 s."""
    monkeypatch.setattr(database, "KEPT_TURNS", 3)
    turned = [("batch.records", 1, None), ("batch.every", 0, None), ("batch.every", 1, "too often")]
    turned += [("batch.records", value, None) for value in range(2, 6)]
    for offset, (name, value, refused) in enumerate(turned):
        turn = {"partition": 0, "offset": 10 * offset, "set_at": 1.0, "by": "ann", "why": None}
        for pipeline in ("auction", "sales") if offset == 0 else ("auction",):
            rows = [{**turn, "name": name, "value": value, "refused": refused}]
            ops.record_turns(pipeline, offset, rows, {})

    kept = [(turn["name"], turn["before"], turn["value"]) for turn in ops.turns("auction")]
    assert kept == [
        ("batch.every", None, 0),
        ("batch.records", 2, 3),
        ("batch.records", 3, 4),
        ("batch.records", 4, 5),
    ]
    assert len(ops.turns("sales")) == 1


def test_turns_follow_a_pipeline_that_gets_another_name(server_ops: OpsDatabase) -> None:
    """They are in the state of its checkpoint, too. The new name had turns of another checkpoint."""

    def turn(pipeline: str, value: int) -> None:
        row = {"partition": 0, "offset": value, "set_at": 1.0, "by": "ann", "name": "batch.records"}
        server_ops.record_turns(
            pipeline, value, [{**row, "value": value, "refused": None, "why": "slow"}], {}
        )

    server_ops.start_run("run-1", "sale", "other", "/other")
    server_ops.set_run_state("run-1", "stopped")
    server_ops.start_run("run-2", "auction", "app", "/checkpoint")
    turn("sale", 3)
    turn("auction", 5)
    turn("auction", 7)
    before = server_ops.turns("auction")
    for number in (3, 4):
        server_ops.start_run(f"run-{number}", "sale", "app", "/checkpoint")
        after = server_ops.turns("sale")
        assert [{**found, "pipeline": "auction"} for found in after] == before
        turn("auction", 9)  # nobody's by now

    assert [found["value"] for found in before] == [5, 7]


def test_batches_of_many_jobs_are_stored_at_once(server_ops: OpsDatabase) -> None:
    """MySQL gave up one of two transactions that waited for each other, and that job stopped."""
    together = Barrier(4)

    def run(number: int) -> None:
        name = f"pipeline-{number}"
        together.wait()
        for batch in range(40):
            server_ops.record_batch(name, batch, f"run-{number}", {"records_total": 1.0}, {"t": {"0": batch}})
            turn = {"partition": 0, "offset": batch, "set_at": 1.0, "by": "ann", "name": "batch.records"}
            server_ops.record_turns(name, batch, [{**turn, "value": 9, "refused": None, "why": None}], {})
            server_ops.record_answers(name, batch, [{"partition": 0, "offset": batch}])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(run, number) for number in range(4)]:
            done.result()
    for number in range(4):
        batch = server_ops.latest_batch(f"pipeline-{number}")
        assert batch is not None
        assert batch.totals == {"records_total": 40}


def test_a_job_waits_while_the_server_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of MySQL stopped each job of its ops database. If it stays away, the error names it."""
    with MariaDb(tmp_path / "mariadb") as server, closing(OpsDatabase(server.url)) as ops:
        ops.start_run("run", "auction", "app", "/checkpoint")
        server.kill()
        with ThreadPoolExecutor(1) as threads:
            stored = threads.submit(record, ops, 0, 10)
            server.start()
            stored.result()
        assert totals(ops)["records_total{stream=bids}"] == 10

        server.kill()
        monkeypatch.setattr(database, "AWAY_SECONDS", 0.2)
        away = r"the ops database mysql\S+ did not answer for 0 s: .*2003"
        with pytest.raises(UnreachableError, match=away):
            record(ops, 1, 10)
        with pytest.raises(UnreachableError, match=away):
            ops.start_run("next", "auction", "app", "/checkpoint")


@pytest.mark.parametrize("locked", [True, False])
def test_a_start_may_be_stored_again(ops: OpsDatabase, locked: bool) -> None:
    """A server that goes away may have stored it, and its answer is lost."""
    for _ in range(2):
        ops.start_run("run", "auction", "app", "s3://shop/checkpoint", locked=locked)

    ops.require_last("run")
    assert _state(ops, "run") == "starting"


def test_times_are_by_the_databases_clock(ops: OpsDatabase) -> None:
    """It goes on, and on this machine it is that of Python."""
    before = time.time()
    times = [ops.now() for _ in range(3)]

    assert times == sorted(times)
    assert before - 0.01 <= times[0] <= times[-1] <= time.time() + 0.01


def test_what_was_read_until(tmp_path: Path) -> None:
    """`verify --until-read` counts no more than the last batch had read; without a batch it is refused."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as ops:
        with pytest.raises(ConfigError, match="no batch of auction"):
            offsets_read(url, "auction")
        record(ops, 0, 10)
        record(ops, 1, 10)

    assert offsets_read(url, "auction") == {"bids": {0: 1}}
    with pytest.raises(ConfigError, match="give --ops-url"):
        offsets_read("", "auction")


def _open_by_many(url: str) -> None:
    together = Barrier(8)

    def opened() -> None:
        together.wait()
        with closing(OpsDatabase(url)) as database:
            assert database.turns("auction") == []

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(opened) for _ in range(8)]:
            done.result()


def test_a_database_may_be_opened_for_the_first_time_by_many_at_once(tmp_path: Path) -> None:
    """The job, the sidecar and whoever looks on start together."""
    for attempt in range(5):
        _open_by_many(f"sqlite:///{tmp_path / f'ops-{attempt}.db'}")


def test_a_server_may_be_used_for_the_first_time_by_many_at_once(server_ops: OpsDatabase) -> None:
    """PostgreSQL refuses a table that another transaction creates, even with IF NOT EXISTS."""
    for _ in range(5):
        META.drop_all(server_ops.engine)
        _open_by_many(server_ops.engine.url.render_as_string(hide_password=False))


def test_a_user_may_lack_the_right_to_make_tables_that_are_there(postgresql: PostgreSql) -> None:
    """PostgreSQL lets nobody but a schema's owner make tables, not even those that are there."""
    made, password = sa.create_engine(postgresql.url, isolation_level="AUTOCOMMIT"), secrets.token_hex()
    with closing(OpsDatabase(postgresql.url)), made.connect() as connection:
        for statement in (
            f"CREATE ROLE clerk LOGIN PASSWORD '{password}'",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk",
        ):
            connection.execute(sa.text(statement))
        url = sa.make_url(postgresql.url).set(username="clerk", password=password)
        with closing(OpsDatabase(url.render_as_string(hide_password=False))) as ops:
            ops.start_run("run", "auction", "app", "/checkpoint")
            found = ops.latest_run("auction")
        connection.execute(sa.text("DROP OWNED BY clerk"))
        connection.execute(sa.text("DROP ROLE clerk"))
        META.drop_all(connection)
    made.dispose()

    assert found is not None
    assert found["run_id"] == "run"


def test_a_job_says_that_its_file_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite goes on with the removed file, so the sidecar saw nothing of the job, and nobody knew why."""
    monkeypatch.setattr(sign_of_life, "SIGN_SECONDS", 0.01)
    said: SimpleQueue[str] = SimpleQueue()
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.start_run("run", "auction", "app", "/checkpoint")
        with SignsOfLife(ops, "run", said.put):
            (tmp_path / "ops.db").unlink()
            line = said.get(timeout=30)

    assert line.startswith(f"the ops database sqlite:///{tmp_path / 'ops.db'} was removed or replaced")
    assert said.empty()


def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Whichever command opens it first, and whatever the mask. A file that exists keeps its rights."""
    (tmp_path / "shared.db").touch()
    (tmp_path / "shared.db").chmod(0o644)
    before = os.umask(0o022)
    try:
        for name in ("own.db", "shared.db"):
            with closing(OpsDatabase(f"sqlite:///{tmp_path / name}")) as opened:
                opened.start_run("run-1", "auction", "app", "/checkpoint")
                rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{name}*")}
                assert set(rights.values()) == {0o600 if name == "own.db" else 0o644}, rights
    finally:
        os.umask(before)


def test_a_file_that_is_no_database_is_told_from_one_that_is_locked(
    tmp_path: Path,
) -> None:
    """A later try succeeds once the lock is gone, so only the first is an error of the command."""
    (tmp_path / "text.db").write_text(100 * "no database ")
    with pytest.raises(ConfigError, match="not a database; name a file"):
        OpsDatabase(f"sqlite:///{tmp_path / 'text.db'}")
    with pytest.raises(ConfigError, match="unable to open"):
        OpsDatabase(f"sqlite:///{tmp_path / 'nowhere' / 'ops.db'}")
    OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}").close()
    with closing(sqlite3.connect(tmp_path / "ops.db")) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnreachableError, match="locked"):
            OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")


@pytest.mark.parametrize("driver", ["mysql+pymysql", "postgresql+pg8000"])
def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    monkeypatch.setattr(ops_access, "_ANSWER_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(MissingPartError, match="cannot use the ops database"):
            OpsDatabase(f"{driver}://ann@127.0.0.1:{silent.getsockname()[1]}/ops")
        assert time.monotonic() - began < 30


def test_a_full_disk_is_named_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to wait until the database is back, and to start it."""
    file = tmp_path / "ops.db"
    advice = f"{file} and {file}-wal cannot grow, since their disk is full; make room on that disk, and start"
    with closing(OpsDatabase(f"sqlite:///{file}")) as ops:

        def is_full(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA max_page_count=1")

        monkeypatch.setattr(database, "AWAY_SECONDS", 0.2)
        ops.engine.dispose()
        event.listen(ops.engine, "connect", is_full)
        with pytest.raises(UnreachableError) as raised:
            ops.record_batch("p", 0, "run", {}, {"t": {str(number): number for number in range(50_000)}})
    assert advice in str(raised.value)

    def cannot_begin(_engine: Any) -> None:
        with closing(sqlite3.connect(":memory:")) as small:
            small.execute("PRAGMA max_page_count=1")
            try:
                small.execute("CREATE TABLE t (x)")
            except sqlite3.Error as error:
                raise DBAPIError("CREATE", {}, error) from error

    monkeypatch.setattr(tables, "make", cannot_begin)
    with pytest.raises(UnreachableError) as raised:
        OpsDatabase(f"sqlite:///{file}")
    assert advice in str(raised.value)
