"""The real parts that tests of several kinds share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import free_port as find_free_port
from endmark.spark.processes.class_archive import local_jars
from endmark.spark.session import start_session
from endmark.verify import session as verify_session
from support.mysql import MySql
from support.postgresql import PostgreSql

# Java's second compiler speeds up what runs for minutes. The Java programs of tests end before: it took 62 of
# the 168 s of CPU of three tests of the whole stack. Spark and the broker take options of Java from these
# variables.
for variable in ("SPARK_SUBMIT_OPTS", "ENDMARK_BROKER_JAVA_OPTIONS"):
    os.environ[variable] = f"{os.environ.get(variable, '')} -XX:TieredStopAtLevel=1".strip()

# A worker of Spark finds no module of tests, as in a shell without this variable. A function of such a module
# was pickled by its name, and failed in such a shell alone.
_TESTS = Path(__file__).parent
if places := os.environ.pop("PYTHONPATH", None):
    others = [place for place in places.split(os.pathsep) if Path(place).resolve() != _TESTS]
    os.environ["PYTHONPATH"] = os.pathsep.join(others)

# To verify the tables of some records took 0.54 s of CPU with two threads of DuckDB, and 0.43 s with one.
verify_session.THREADS = 1

# Files that take long, the longest first: so they begin, and none is left to run alone at the end.
LONG = (
    "tidy/test_types.py",
    "stack/test_pulse.py",
    "faults/test_outages.py",
    "faults/test_stops.py",
    "damage/test_damages.py",
    "processes/test_cases.py",
    "stack/test_nexmark.py",
    "stack/test_class_archive.py",
    "stack/test_pace.py",
    "stack/test_examples.py",
    "stack/test_frame_programs.py",
    "stack/test_autotune.py",
    "stack/test_publish.py",
    "browser/test_dashboard.py",
    "faults/test_crashes.py",
    "faults/test_tables_on_s3.py",
    "faults/test_table_modes.py",
    "faults/test_maintain.py",
    "stack/test_pipeline_spark.py",
    "stack/test_join_types.py",
    "browser/test_operator.py",
    "faults/test_relation_outages.py",
    "browser/test_views.py",
    "stack/test_demo.py",
    "stack/test_demo_mysql.py",
    "stack/test_first_pipeline.py",
    "stack/test_frames_chained.py",
    "stack/test_embedded_broker.py",
    "simulation/test_seeds.py",
    "oracle/test_row_steps.py",
    "oracle/test_tables.py",
    "oracle/test_several_streams.py",
    "oracle/test_stream_join.py",
    "oracle/test_graphs.py",
    "oracle/test_group_stage.py",
    "oracle/test_derived_streams.py",
    "oracle/test_knobs.py",
    "oracle/test_step_tables.py",
    "oracle/test_nary_join.py",
    "oracle/test_idle.py",
    "oracle/test_running_groups.py",
    "unit/cli/test_cli.py",
    "oracle/test_frame_programs.py",
    "unit/verify/test_random_worlds.py",
    "oracle/test_formats.py",
    "oracle/test_lookup_gate.py",
    "oracle/test_closing_rules.py",
    "oracle/test_latest_rows.py",
    "oracle/test_upserts.py",
    "oracle/test_lookup_join.py",
    "unit/relation/test_sql.py",
    "unit/relation/test_outage.py",
    "oracle/test_lookup_operator.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


@pytest.fixture(autouse=True)
def mask_of_before() -> Iterator[None]:
    """Undo the mask of files that a command of the product gives the process of the tests."""
    mask = os.umask(0)
    os.umask(mask)
    yield
    os.umask(mask)


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """The jars of a Spark session that reads Kafka and writes Delta, with an archive of its classes."""
    return local_jars(print)


@pytest.fixture(scope="module")
def spark(jars: list[Path], request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of two cores and two shuffle partitions, which a module has for itself."""
    name = request.module.__name__
    session = start_session(name, jars, master="local[2]", shuffle_partitions=2, driver_memory="1g")
    yield session
    session.stop()


# The servers that tests share are killed in the end, since nobody reads their files afterwards. A broker with
# 300 topics took 3 s to end in order.
@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker without topics; tests name their topics so that they do not meet."""
    with Broker(tmp_path_factory.mktemp("broker"), say=print) as running:
        yield running
        running.kill()


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """A running server with an empty database; tests name their tables so that they do not meet."""
    with MariaDb(tmp_path_factory.mktemp("mariadb")) as running:
        yield running
        running.kill()


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySql]:
    """A running MySQL with an empty database; tests name their tables so that they do not meet."""
    with MySql(tmp_path_factory.mktemp("mysql")) as running:
        yield running
        running.kill()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    """A running PostgreSQL with an empty database; tests name their tables so that they do not meet."""
    with PostgreSql() as running:
        yield running


@pytest.fixture
def free_port() -> int:
    return find_free_port()
