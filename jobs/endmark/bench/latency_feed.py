"""Feeds the auction at its own pace, in a process of its own, whether or not a job keeps up.

Reads a task as JSON from standard input. Prints when the feed began (Unix seconds), which is where its event
time begins, and by how many seconds its records left too late at worst.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import takewhile

from endmark.bench.auction import workload
from endmark.client import Delivery
from endmark_feed.producer import send, when_due
from endmark_feed.workload import messages


def main() -> None:
    task = json.load(sys.stdin)
    feed = workload(task["seconds"], task["rate"], task["sellers"])
    # The last promises all come at once, when nothing is measured any longer.
    paced = takewhile(lambda message: message.due_seconds < feed.seconds, messages(feed))
    behind = 0.0
    with Delivery(task["bootstrap"]) as delivery:
        began, start = time.time(), time.monotonic()
        for chunk in when_due(paced, lambda: time.monotonic() - start):
            send(delivery, chunk)
            behind = max(behind, time.monotonic() - start - chunk[0].due_seconds)
    print(json.dumps({"began": began, "behind": round(behind, 3)}))


if __name__ == "__main__":
    main()
