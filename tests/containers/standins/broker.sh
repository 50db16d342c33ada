#!/bin/sh
# Writes KAFKA_* as settings (KAFKA_NODE_ID is node.id, three underscores are a hyphen), formats new storage, and becomes
# the broker.
set -eu
settings="$HOME/server.properties"
env | sed -n 's/^KAFKA_//p' | while IFS='=' read -r name value; do
    echo "$(echo "$name" | tr 'A-Z_' 'a-z.' | sed 's/[.][.][.]/-/g')=$value"
done > "$settings"
java -cp "/opt/kafka/libs/*" kafka.tools.StorageTool format --config "$settings" --ignore-formatted \
    --cluster-id "${CLUSTER_ID:-4L6g3nShT-eMCtK--X86sw}"
exec java -Xmx768m -cp "/opt/kafka/libs/*" kafka.Kafka "$settings"
