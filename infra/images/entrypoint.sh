#!/bin/sh
# Puts the secrets of files where programs look for them.
set -eu
if [ -n "${ENDMARK_RELATION_PASSWORD_FILE:-}" ]; then
    # The URL comes as scheme://user@host/database.
    password=$(cat "$ENDMARK_RELATION_PASSWORD_FILE")
    export ENDMARK_RELATION_URL="${ENDMARK_RELATION_URL%%@*}:$password@${ENDMARK_RELATION_URL#*@}"
fi
if [ -n "${SPARK_AUTHENTICATE_SECRET_FILE:-}" ]; then
    # Outside Kubernetes, Spark takes its secret from a setting only, and a command line would show it.
    settings="$HOME/spark-conf"
    mkdir -p -m 700 "$settings"
    cat "$SPARK_CONF_DIR/spark-defaults.conf" - > "$settings/spark-defaults.conf" <<END
spark.authenticate         true
spark.authenticate.secret  $(cat "$SPARK_AUTHENTICATE_SECRET_FILE")
END
    export SPARK_CONF_DIR="$settings"
fi
exec "$@"
