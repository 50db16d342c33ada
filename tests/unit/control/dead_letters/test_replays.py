"""Dead letters: searched in a real Delta table and sent once more through a real broker."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from endmark.control.dead_letters.replayed_letters import Chosen, choose, replay_all
from endmark.control.dead_letters.replays import GoneError, ReplayedError, replay, replayed
from endmark.control.dead_letters.search import Coordinates, DeadLetter, Search, dead_letter, dead_letters
from endmark.control.dead_letters.sent_records import SentRecords
from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import META, replays
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.engine.channels import DEAD_LETTER_SCHEMA
from endmark.errors import ConfigError, MissingPartError
from endmark.kafka.sending import Sender
from endmark.pipeline.tables import OWNER
from endmark.pipelines import AUCTION
from endmark.verify.read.consume import Log
from endmark_feed.producer import create_topics
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from support.broken_records import Letter, write_letters
from support.commands import endmark
from support.ops_client import OpsClient
from support.ops_tokens import WRITE_ONLY, WRITER, bearer
from support.verify_world import make_pipeline

NOBODY = "127.0.0.1:1"
LETTERS: list[Letter] = [
    ("bids", 0, 4, "not_json", "it's no JSON", b'{"bid_id": 1, "Mark": "H\xc3\xa9llo"'),
    ("bids", 1, 9, "wrong_type", "price: no number", b"\xff\xfe{"),
    ("items", 0, 9, "wrong_type", "price: no number", None),
    ("bids", 0, 9, "wrong_type", "price: 'x' is no number", b'{"price": "x"}'),
]
API = "/api/pipelines/small"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = tmp_path / "dead_letters"
    for each in (LETTERS[:2], LETTERS[2:]):
        write_letters(table, each)
    return table


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    yield database
    database.close()


def test_the_newest_come_first_page_by_page(table: Path) -> None:
    """Records of equal offsets in other partitions are neither skipped nor repeated."""
    found = [str(letter.at) for letter in dead_letters(table, Search(), 10)]
    paged: list[str] = []
    while page := dead_letters(table, Search(), 1, Coordinates.parse(paged[-1]) if paged else None):
        paged += [str(letter.at) for letter in page]

    assert found == paged == ["bids/0/9", "bids/1/9", "items/0/9", "bids/0/4"]
    assert dead_letters(table.parent / "nothing", Search(), 10) == []


@pytest.mark.parametrize(
    ("search", "offsets"),
    [
        (Search(topic="bids"), ["bids/0/9", "bids/1/9", "bids/0/4"]),
        (Search(topic="bids", reason="wrong_type"), ["bids/0/9", "bids/1/9"]),
        (Search(text="hÉLLO"), ["bids/0/4"]),
        (Search(text="IT'S"), ["bids/0/4"]),
        (Search(text="no number"), ["bids/0/9", "bids/1/9", "items/0/9"]),
        (Search(text="%"), []),
        (Search(topic="' OR 1=1 --"), []),
        (Search(reason="\\' OR 'a'='a"), []),
    ],
)
def test_letters_are_searched_by_topic_reason_and_text(
    table: Path, search: Search, offsets: list[str]
) -> None:
    """Text is looked for in value and error; what is asked for is no SQL."""
    assert [str(letter.at) for letter in dead_letters(table, search, 10)] == offsets


def test_values_are_cut_where_they_are_read(table: Path) -> None:
    """At a whole letter; what is no text is not cut."""
    write_letters(table, [("bids", 0, 99, "not_json", "long", "ä".encode() * 5000)])
    values = {str(letter.at): letter.value for letter in dead_letters(table, Search(), 10, most=3)}

    assert values == {
        "bids/0/99": "äää".encode(),
        "bids/0/9": b'{"p',
        "bids/1/9": b"\xff\xfe{",
        "items/0/9": None,
        "bids/0/4": b'{"b',
    }


def test_one_letter_is_had_whole(table: Path) -> None:
    letter = dead_letter(table, Coordinates("bids", 1, 9))

    assert (letter.reason, letter.value, letter.text) == ("wrong_type", b"\xff\xfe{", None)
    assert dead_letter(table, Coordinates("items", 0, 9)).value is None
    with pytest.raises(ConfigError, match="no dead letter is of bids/1/4"):
        dead_letter(table, Coordinates("bids", 1, 4))


@pytest.mark.parametrize(
    "text", ["", "bids", "bids/0", "bids/x/1", "bids/-1/2", f"bids/0/{2**63}", "/0/1", "b/0/1/2"]
)
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no place of a record"):
        Coordinates.parse(text)


def records(broker: Broker, topic: str, partition: int) -> list[Any]:
    """Value and headers of every record of a partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    where = TopicPartition(topic, partition)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    found: list[Any] = []
    while consumer.position(where) < consumer.end_offsets([where])[where]:
        found += consumer.poll(timeout_ms=1000).get(where, [])
    consumer.close()
    return [(record.value, {name: value.decode() for name, value in record.headers}) for record in found]


def test_a_letter_is_replayed_once_to_its_partition(ops: OpsDatabase, broker: Broker, tmp_path: Path) -> None:
    """Over HTTP, with headers that say what it was; the list shows by whom, and another time is refused."""
    create_topics(broker.bootstrap, {"replayed": 2})
    write_letters(tmp_path / "dead_letters", [("replayed", 1, 0, "not_json", "it ends", b'{"a": 1')])
    described = describe(make_pipeline())
    described.topics["bids"] = "replayed"
    ops.pipelines.describe("small", described.model_dump())
    app = create_app(str(ops.engine.url), reach=Reach(WRITE_ONLY, broker.bootstrap, str(tmp_path)))
    api = OpsClient(app, headers=bearer(WRITER))
    mended = {"at": "replayed/1/0", "text": '{"a": 1}', "by": "Zoë"}
    before = api.get(f"{API}/dead-letters").json()["letters"]
    done = api.post(f"{API}/dead-letters/replay", json=mended)
    again = api.post(f"{API}/dead-letters/replay", json=mended)
    [after] = api.get(f"{API}/dead-letters").json()["letters"]

    assert [letter["replayed"] for letter in before] == [None]
    assert (done.status_code, done.json()["to_offset"]) == (202, 0)
    assert records(broker, "replayed", 1) == [
        (b'{"a": 1}', {"endmark-replay-of": "replayed/1/0", "endmark-replay-by": "Zoë (ann)"})
    ]
    assert records(broker, "replayed", 0) == []
    assert (again.status_code, again.json()["detail"].partition(";")[0]) == (
        409,
        "replayed/1/0 was replayed to offset 0 by Zoë (ann)",
    )
    assert after["replayed"] == done.json()
    assert (done.json()["changed"], done.json()["by"]) == (True, "Zoë (ann)")


def test_letters_over_http(ops: OpsDatabase, table: Path) -> None:
    """Long values are cut in lists alone, and what is no text comes as base64."""
    write_letters(table, [("bids", 0, 99, "not_json", "long", b"x" * 5000)])
    ops.pipelines.describe("small", describe(make_pipeline()).model_dump())
    api = OpsClient(create_app(str(ops.engine.url), reach=Reach(warehouse=str(table.parent))))
    first = api.get(f"{API}/dead-letters", params={"limit": 3, "topic": "bids"}).json()
    rest = api.get(f"{API}/dead-letters", params={"topic": "bids", "after": first["after"]}).json()

    assert [letter["at"] for letter in first["letters"]] == ["bids/0/99", "bids/0/9", "bids/1/9"]
    assert ([letter["at"] for letter in rest["letters"]], rest["after"]) == (["bids/0/4"], None)
    assert (len(first["letters"][0]["text"]), first["letters"][0]["whole"]) == (2000, False)
    assert base64.b64decode(first["letters"][2]["base64"]) == b"\xff\xfe{"
    whole = api.get(f"{API}/dead-letters/bids/0/99").json()
    assert (len(whole["text"]), whole["whole"]) == (5000, True)
    assert api.get(f"{API}/dead-letters/bids/0/98").status_code == 404
    assert api.get(f"{API}/dead-letters?after=bids").status_code == 400


def test_letters_of_another_checkpoint_are_not_shown(ops: OpsDatabase, tmp_path: Path) -> None:
    """A warehouse without the pipeline's name showed its letters to all, whatever their token was for."""
    table = tmp_path / "dead_letters"
    schema, owned = Schema.from_arrow(DEAD_LETTER_SCHEMA), {OWNER: "app-small"}
    DeltaTable.create(str(table), schema, configuration=owned, raise_if_key_not_exists=False)
    write_letters(table, LETTERS)
    for pipeline in ("small", "other"):
        ops.pipelines.describe(pipeline, describe(make_pipeline()).model_dump())
        ops.runs.start(f"run-{pipeline}", pipeline, f"app-{pipeline}", f"/{pipeline}")
    reach = Reach(WRITE_ONLY, NOBODY, str(tmp_path))
    api = OpsClient(create_app(str(ops.engine.url), reach=reach), headers=bearer(WRITER))
    asked = [
        [
            api.get(f"/api/pipelines/{pipeline}/dead-letters"),
            api.get(f"/api/pipelines/{pipeline}/dead-letters/bids/0/4"),
            api.post(f"/api/pipelines/{pipeline}/dead-letters/replay", json={"at": "bids/0/4"}),
        ]
        for pipeline in ("small", "other")
    ]

    assert [[answer.status_code for answer in answers] for answers in asked] == [[200, 200, 400], 3 * [409]]
    assert {answer.json()["detail"].partition(";")[0] for answer in asked[1]} == {
        "the sidecar's --warehouse has the dead letters of another job"
    }


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"at": "bids/0"}, 400, "is no place"),
        ({"at": "bids/0/5"}, 404, "no dead letter is of bids/0/5"),
        ({"at": "small-control/0/1"}, 400, "turn the knob"),
        ({"at": "items/0/9", "text": "{}"}, 400, "records of items are no text; give the bytes by endmark"),
        ({"at": "bids/0/4"}, 503, "no Kafka broker at 127.0.0.1:1"),
    ],
)
def test_a_replay_that_cannot_be_is_refused_with_why(
    ops: OpsDatabase, table: Path, body: dict[str, Any], status: int, says: str
) -> None:
    write_letters(table, [("small-control", 0, 1, "bad_control", "it is none", b"{}")])
    described = describe(make_pipeline())
    described.topics |= {"bids": "bids", "items": "items"}
    described.binary_topics.append("items")
    ops.pipelines.describe("small", described.model_dump())
    reach = Reach(WRITE_ONLY, NOBODY, str(table.parent))
    api = OpsClient(create_app(str(ops.engine.url), reach=reach), headers=bearer(WRITER))
    answer = api.post(f"{API}/dead-letters/replay", json=body)

    assert (answer.status_code, says in answer.json()["detail"]) == (status, True)
    unreadable = api.post(f"{API}/dead-letters/replay", content=b'{"at": "bids/0/4", "text": "\\ud800"}')
    assert unreadable.status_code == 422


def test_a_replay_that_was_cut_off_may_be_repeated_after_a_while(
    ops: OpsDatabase, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that failed may be at once; one that is on its way may not. The database's clock stands still."""
    now = ops.now()
    monkeypatch.setattr(OpsDatabase, "now", lambda _: now)
    monkeypatch.setattr(time, "time", lambda: now + 3_600)  # a host whose clock is wrong
    letter = dead_letter(table, Coordinates("bids", 0, 4))

    def again() -> None:
        replay(ops, NOBODY, "small", letter, letter.value, "Bo", ())

    with pytest.raises(MissingPartError):
        again()
    assert replayed(ops, "small", [letter]) == {}
    for age, expected in ((50, ReplayedError), (70, MissingPartError)):
        with ops.engine.begin() as connection:
            connection.execute(replays.delete())
            row = {"pipeline": "small", "topic": "bids", "partition": 0, "offset": 4}
            connection.execute(replays.insert().values(**row, at=now - age, by="Ann", changed=False))
        with pytest.raises(expected):
            again()


def test_clients_that_replay_one_letter_at_once(mariadb: MariaDb, broker: Broker) -> None:
    """One sends it, and the others learn so. MySQL saw a deadlock there, and gave one of them up."""
    create_topics(broker.bootstrap, {"contested": 1})
    letters = [DeadLetter(Coordinates("contested", 0, at), "malformed", "", b"{") for at in range(5)]
    together = Barrier(8, timeout=30)

    def sent(_client: int) -> int:
        found = 0
        for letter in letters:
            together.wait()
            with suppress(ReplayedError):
                replay(shared, broker.bootstrap, "small", letter, letter.value, "Bo", ())
                found += 1
        return found

    with closing(OpsDatabase(mariadb.url)) as shared:
        with ThreadPoolExecutor(8) as clients:
            counts = list(clients.map(sent, range(8)))
        META.drop_all(shared.engine)
    assert (sum(counts), len(records(broker, "contested", 0))) == (5, 5)


def test_letters_from_the_command_line(ops: OpsDatabase, broker: Broker, tmp_path: Path) -> None:
    create_topics(broker.bootstrap, {"bids": 2})
    write_letters(tmp_path / "dead_letters", LETTERS)
    where = f"--warehouse={tmp_path}"

    def run(*arguments: str) -> Any:
        return endmark("dead-letters", *arguments, ENDMARK_RELATION_URL="sqlite:///r.db")

    listed = run("list", str(AUCTION), where, "--topic=bids", "--json").stdout.splitlines()
    lines = run("list", str(AUCTION), where, "--topic=bids").stdout.splitlines()
    to = [where, f"--bootstrap={broker.bootstrap}", f"--ops-url={ops.engine.url}", "--by=Bo"]
    shown = run("show", str(AUCTION), "bids/0/4", where, to[2])
    done = run("replay", str(AUCTION), "bids/0/4", *to)
    again = run("show", str(AUCTION), "bids/0/4", where, to[2])
    facts = json.loads(run("show", str(AUCTION), "bids/0/4", where, to[2], "--json").stdout)
    twice = run("replay", str(AUCTION), "bids/0/4", *to)

    assert [json.loads(line)["at"] for line in listed] == ["bids/0/9", "bids/1/9", "bids/0/4"]
    assert [line for line in lines if not line.startswith(" ")][-1] == "bids/0/4  not_json: it's no JSON"
    assert shown.stdout.startswith("bids/0/4\nnot_json: it's no JSON\n{")
    said = again.stdout.removeprefix(shown.stdout)
    assert re.fullmatch(r"replayed by Bo at \S+ \S+ UTC, is bids/0/0 now\n", said)
    assert (facts["replayed"]["by"], facts["replayed"]["to_offset"]) == ("Bo", 0)
    assert done.stdout == "bids/0/4 is bids/0/0 now\n", done.stderr
    assert (twice.returncode, "was replayed to offset 0 by Bo" in twice.stderr) == (1, True)
    assert [value for value, _ in records(broker, "bids", 0)][-1:] == [LETTERS[0][-1]]

    some = ("replay", str(AUCTION), *to, "--where=reason = 'wrong_type' and topic = 'bids'")
    counted = run(*some)
    sent = json.loads(run(*some, "--yes", "--json").stdout)
    both = run("replay", str(AUCTION), "bids/0/4", *to, "--where=true")
    assert counted.stdout == "2 dead letters meet the condition; 2 would be sent; add --yes\n", counted.stderr
    assert (sent["matching"], sent["sent"], sent["replayed_before"], sent["left"]) == (2, 2, 0, 0)
    assert both.returncode == 2


def test_a_mended_value_of_bytes_is_in_a_file(ops: OpsDatabase, broker: Broker, tmp_path: Path) -> None:
    """No text spells a record of Avro or Protobuf. A command that cannot send one uses up no letter."""
    create_topics(broker.bootstrap, {"mended": 1})
    letter: Letter = ("mended", 0, 9, "malformed", "it is no value", b"\0\0\0\0\7\xff")
    write_letters(tmp_path / "dead_letters", [letter])
    mended = tmp_path / "mended"
    mended.write_bytes(b"\0\0\0\0\7\xff\n")
    to = [f"--warehouse={tmp_path}", f"--bootstrap={broker.bootstrap}", f"--ops-url={ops.engine.url}"]

    def run(*arguments: str) -> Any:
        return endmark("dead-letters", "replay", str(AUCTION), *to, *arguments)

    both = run("mended/0/9", f"--value-file={mended}", "--value=text")
    many = run("--where=true", f"--value-file={mended}", "--yes")
    gone = run("mended/0/9", f"--value-file={tmp_path / 'gone'}")
    done = run("mended/0/9", f"--value-file={mended}")

    for refused in (both, many):
        assert (refused.returncode, "name the place of one dead letter" in refused.stderr) == (2, True)
    assert (gone.returncode, f"--value-file {tmp_path / 'gone'} cannot be read" in gone.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert [value for value, _ in records(broker, "mended", 0)] == [mended.read_bytes()]


def test_a_text_is_not_sent_in_place_of_bytes(tmp_path: Path) -> None:
    """It would be a dead letter, and the one that it replaces could not be replayed any more."""
    write_letters(tmp_path / "dead_letters", LETTERS)
    stream = {"topic": "bids", "format": "avro", "schema_file": "bids.avsc", "columns": {"at": "timestamp"}}
    declared = {"bids": stream | {"event_time": {"column": "at"}}}
    file = tmp_path / "shop.yaml"
    file.write_text(json.dumps({"name": "shop", "streams": declared, "tables": {"bids": {}}}))

    to = [f"--warehouse={tmp_path}", f"--bootstrap={NOBODY}", f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"]
    refused = endmark("dead-letters", "replay", str(file), "bids/1/9", *to, "--value={}")

    assert refused.returncode == 2, refused.stderr
    assert "records of bids are no text; give a --value-file" in refused.stderr


def test_all_letters_of_a_condition_are_replayed_once(
    ops: OpsDatabase, broker: Broker, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their records, the first ones of a limit, and no control record."""
    write_letters(table, [("small-control", 0, 1, "bad_control", "it is none", b"{}")])
    sent: list[tuple[str, int, bytes | None]] = []

    def send(_: Sender, topic: str, record: bytes | None, partition: int, headers: Any, *__: Any) -> int:
        sent.append((topic, partition, record))
        return len(sent)

    monkeypatch.setattr(Sender, "send", send)
    monkeypatch.setattr(SentRecords, "find", lambda *_: None)

    def chosen(where: str, limit: int = 10) -> Chosen:
        return choose(ops, "small", table, where, "small-control", limit)

    first = chosen("topic is not null", 2)
    assert [str(letter.at) for letter in first.letters] == ["bids/0/4", "bids/0/9"]
    assert (first.matching, first.control, first.replayed, first.left) == (5, 1, 0, 2)
    assert replay_all(ops, NOBODY, "small", first.letters, "Bo", ()) == 2
    assert replay_all(ops, NOBODY, "small", first.letters, "Bo", ()) == 0
    rest = chosen("\"offset\" >= 4 and topic <> 'x'")
    assert [str(letter.at) for letter in rest.letters] == ["bids/1/9", "items/0/9"]
    assert (rest.matching, rest.replayed, rest.left) == (4, 2, 0)
    assert replay_all(ops, NOBODY, "small", rest.letters, "Bo", ()) == 2
    assert [(topic, partition) for topic, partition, _ in sent] == [
        ("bids", 0),
        ("bids", 0),
        ("bids", 1),
        ("items", 0),
    ]
    assert sent[-1][2] is None


@pytest.mark.parametrize("whole", [True, False])
def test_a_replayed_record_keeps_its_key_and_headers(ops: OpsDatabase, broker: Broker, whole: bool) -> None:
    """And its timestamp, if a column may be taken from it."""
    topic = f"replayed-{whole}".lower()
    create_topics(broker.bootstrap, {topic: 2})
    then = int(1000 * time.time()) - 5_000
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        headers = [("tenant", b"old"), ("tenant", b"new"), ("endmark-replay-by", b"Ann")]
        producer.send(topic, b"{", b"k", headers, partition=1, timestamp_ms=then)
    at = Coordinates(topic, 1, 0)
    letter = DeadLetter(at, "malformed", "not JSON", b"{")

    done = replay(ops, broker.bootstrap, topic, letter, b"{}", "Bo", [topic] if whole else [])

    with Log(broker.bootstrap, [topic], whole=[topic]) as log:
        rows = pa.Table.from_batches(log.batches()).to_pylist()
    assert (done.to_offset, rows[1]["partition"], rows[1]["value"], rows[1]["key"]) == (1, 1, b"{}", b"k")
    assert (rows[1]["timestamp"] == then) == whole
    assert {each["name"]: each["value"] for each in rows[1]["headers"]} == {
        "tenant": b"new",
        "endmark-replay-of": str(at).encode(),
        "endmark-replay-by": b"Bo",
    }


def test_a_record_that_is_gone_is_not_replayed_where_its_key_may_count(
    ops: OpsDatabase, broker: Broker
) -> None:
    """It may be replayed later, if no column needs more than the value."""
    create_topics(broker.bootstrap, {"gone": 1})
    letter = DeadLetter(Coordinates("gone", 0, 0), "malformed", "not JSON", b"{")

    with pytest.raises(GoneError, match="Kafka does not hold gone/0/0 any more"):
        replay(ops, broker.bootstrap, "gone", letter, b"{}", "Bo", ["gone"])

    assert replay(ops, broker.bootstrap, "gone", letter, b"{}", "Bo", []).to_offset == 0


def test_a_condition_that_is_none_is_refused_and_one_that_fails_is_counted(
    ops: OpsDatabase, table: Path
) -> None:
    """Even if the table is not there yet."""
    for where, says in [
        ("price > 3", "price"),
        ("reason", "must be a condition"),
        ("(select true)", "--where"),
        ("random() > 0.5", "--where"),
    ]:
        for place in (table, table.parent / "nothing"):
            with pytest.raises(ConfigError, match=says):
                choose(ops, "small", place, where, "small-control", 10)
    failing = choose(ops, "small", table, "decode(value) like '%Mark%'", "small-control", 10)
    assert ([str(letter.at) for letter in failing.letters], failing.failed) == (["bids/0/4"], 1)
    assert failing.why
    assert choose(ops, "small", table.parent / "nothing", "topic = 'x'", "small-control", 10).letters == []
