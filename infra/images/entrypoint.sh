#!/bin/sh
# Puts secrets from files where programs look for them.
set -eu
umask 077
if [ -n "${ENDMARK_RELATION_PASSWORD_FILE:-}" ]; then
    # The URL comes as scheme://user@host/database.
    # Letters that have a meaning in a URL are written as %40 and the like. The password is on no command line.
    password=$(python -c 'import sys, urllib.parse as u; print(u.quote(sys.stdin.read().rstrip("\r\n"), safe=""))' \
        < "$ENDMARK_RELATION_PASSWORD_FILE")
    export ENDMARK_RELATION_URL="${ENDMARK_RELATION_URL%%@*}:$password@${ENDMARK_RELATION_URL#*@}"
fi
if [ -n "${SPARK_AUTHENTICATE_SECRET_FILE:-}" ]; then
    # Outside Kubernetes, Spark takes its secret from a setting only, and a command line would show it. The driver hands
    # Kafka's password to the executors, so their connections are encrypted.
    settings="$HOME/spark-conf"
    mkdir -p -m 700 "$settings"
    cat "$SPARK_CONF_DIR/spark-defaults.conf" - > "$settings/spark-defaults.conf" <<END
spark.authenticate         true
spark.authenticate.secret  $(cat "$SPARK_AUTHENTICATE_SECRET_FILE")
spark.network.crypto.enabled  true
END
    export SPARK_CONF_DIR="$settings"
fi
case "${1:-}" in
driver) # Spark on Kubernetes passes this word as first argument
    shift
    set -- spark-submit --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    set -- java
    option=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$option+set}\" ]"; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$option\""
        option=$((option + 1))
    done
    set -- "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
esac
exec "$@"
