#!/bin/sh
# The command is not among the jars of a broker alone. Called as: --bootstrap-server=host:port --command-config=file
exec python - "${1#*=}" "${2#*=}" <<END
import sys
from pathlib import Path
from kafka import KafkaAdminClient
given = dict(line.split("=", 1) for line in Path(sys.argv[2]).read_text().splitlines() if line[:1] != "#")
KafkaAdminClient(
    bootstrap_servers=sys.argv[1],
    security_protocol=given["security.protocol"],
    ssl_cafile=given["ssl.truststore.location"],
    ssl_certfile=given["ssl.keystore.location"],
).describe_cluster()
END
