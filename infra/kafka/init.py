"""Makes the topics of the auction, and gives each part of docker-compose.yml a user with rights.

The certificate of `admin` may do everything. A further run changes only the passwords that have changed.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

STREAMS, CONTROL = ("items", "bids"), "auction-control"
PARTITIONS = {"items": 2, "bids": 4, CONTROL: 1}
# The rights of docs/secured-kafka.md, on topics of streams and on the control topic. The operator is the
# sidecar, which also writes dead letters to their streams again.
RIGHTS = {
    "feed": ("DESCRIBE WRITE", ""),
    "job": ("DESCRIBE READ", "DESCRIBE READ WRITE"),
    "operator": ("DESCRIBE READ WRITE", "DESCRIBE READ WRITE"),
}


def rights_of(user: str) -> list[ACL]:
    """Return the rights of a user, one for each operation on a topic."""
    of_streams, of_control = RIGHTS[user]
    named = [(topic, of_streams) for topic in STREAMS] + [(CONTROL, of_control)]
    return [
        ACL(
            f"User:{user}",
            "*",
            ACLOperation[operation],
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType.TOPIC, topic),
        )
        for topic, operations in named
        for operation in operations.split()
    ]


def init(bootstrap: str, secrets: Path) -> None:
    """Make topics, users and rights where they are missing.

    Args:
        bootstrap: the address of the listener that asks for a certificate.
        secrets: the directory of `kafka_ca`, of `kafka_admin`, and of each user's password.

    Raises:
        RuntimeError: the broker refuses a user or a right.
    """
    admin = KafkaAdminClient(
        bootstrap_servers=bootstrap,
        security_protocol="SSL",
        ssl_cafile=str(secrets / "kafka_ca"),
        ssl_certfile=str(secrets / "kafka_admin"),
    )
    with closing(admin):
        there = set(admin.list_topics())
        missing = {topic: count for topic, count in PARTITIONS.items() if topic not in there}
        if missing:
            admin.create_topics(
                {
                    topic: {"num_partitions": count, "replication_factor": 1}
                    for topic, count in missing.items()
                }
            )
        for user in RIGHTS:
            password = (secrets / f"kafka_{user}").read_text().strip()
            added = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password)
            done = admin.alter_user_scram_credentials([added])
            if failed := {name: why for name, why in done.items() if why}:
                raise RuntimeError(f"the broker refuses a user: {failed}")
            if refused := admin.create_acls(rights_of(user))["failed"]:
                raise RuntimeError(f"the broker refuses a right of {user}: {refused}")


if __name__ == "__main__":
    init(sys.argv[1], Path(sys.argv[2]))
