#!/bin/sh
# Puts the password of a secret file into ENDMARK_RELATION_URL, which comes as scheme://user@host/database.
set -eu
if [ -n "${ENDMARK_RELATION_PASSWORD_FILE:-}" ]; then
    password=$(cat "$ENDMARK_RELATION_PASSWORD_FILE")
    export ENDMARK_RELATION_URL="${ENDMARK_RELATION_URL%%@*}:$password@${ENDMARK_RELATION_URL#*@}"
fi
exec "$@"
