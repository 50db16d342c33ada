"""Finds the rows that use a key again that their stream has closed long ago, and may have forgotten.

The stream promises by `forget_keys_after` that there are none. A job joins such a row if it has forgotten the
key, so its tables may differ from the expected ones.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.breach import breach
from endmark.verify.join.sides import microseconds, stream_names
from endmark.verify.report import Breach
from endmark.verify.session import Session

# A heartbeat advances time as a row does that is `lateness` newer than the first time that it leaves. If
# nothing came before the promise, what came first after it counts.
_USED_AGAIN = """
SELECT $partition AS "partition", $offset AS "offset", "#since" AS closed_at FROM $judged j
WHERE violation IN ('closed', 'repeated', 'unclustered') AND NOT coalesce("#matched", false)
    AND epoch_us($time) > $forget_after + coalesce(
        greatest(
            (SELECT max(epoch_us(r.$time)) FROM $rows r
                WHERE r.$partition = j.$partition AND r.$offset <= j."#since"),
            (SELECT max(h.first) + $lateness FROM $heartbeats h
                WHERE h."partition" = j.$partition AND h."offset" <= j."#since")
        ),
        least(
            (SELECT arg_min(epoch_us(r.$time), r.$offset) FROM $rows r
                WHERE r.$partition = j.$partition AND r.$offset > j."#since"),
            (SELECT min(h.first) + $lateness FROM $heartbeats h
                WHERE h."partition" = j.$partition AND h."offset" > j."#since")
        )
    )
ORDER BY ALL
"""


def check_forgotten(session: Session, pipeline: Pipeline) -> list[Breach]:
    """Return the breaches of `forget_keys_after`. The session is one after `expected_tables`."""
    found = []
    for stream, declared in pipeline.read_streams.items():
        if declared.forget_keys_after is not None:
            found.append(
                breach(
                    session,
                    f"topic {declared.topic}: a key is used again longer than forget_keys_after since it was "
                    "closed",
                    _USED_AGAIN,
                    None,
                    forget_after=str(microseconds(declared.forget_keys_after)),
                    lateness=str(microseconds(declared.event_time.lateness)),
                    **stream_names(pipeline, stream),
                )
            )
    return [each for each in found if each is not None]
