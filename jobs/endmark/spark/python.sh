#!/bin/sh
# The driver's own Python and its path, before which Spark puts an archive of itself, as sources: every Python that
# Spark starts compiled them, for 0.6 s, and a plan waits for one such Python after the other.
export PYTHONPATH="$ENDMARK_WORKER_PATH"
exec "$ENDMARK_WORKER_PYTHON" "$@"
