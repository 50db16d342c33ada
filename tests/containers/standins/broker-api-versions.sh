#!/bin/sh
# The command is not among the jars of a broker alone. Called as: --bootstrap-server host:port
exec python -c "from kafka import KafkaAdminClient; KafkaAdminClient(bootstrap_servers='$2').describe_cluster()"
