"""The command `run` without a broker, which waits half a minute for one."""

from __future__ import annotations

from pathlib import Path

from endmark_feed.relation import seed_relation
from support.commands import assert_one_line, endmark


def test_missing_broker(tmp_path: Path) -> None:
    """One line names the broker that does not answer. The exit code tells systemd to try again."""
    relation = f"sqlite:///{tmp_path}/r.db"
    seed_relation(relation, 1, seed=1)

    ended = endmark(
        "run",
        "--bootstrap=127.0.0.1:1",
        f"--warehouse={tmp_path}",
        f"--checkpoint={tmp_path / 'checkpoint'}",
        f"--ops-url=sqlite:///{tmp_path / 'ops.db'}",
        ENDMARK_RELATION_URL=relation,
    )

    assert_one_line(ended, "no Kafka broker answers at 127.0.0.1:1", "start it, correct --bootstrap", code=75)
