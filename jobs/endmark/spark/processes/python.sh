#!/bin/sh
# Runs the driver's own Python with the driver's own path. Spark puts an archive of its sources before that path, so
# every Python that Spark started compiled them, for 0.6 s. A plan waits for several such processes, one by one.
# A terminal's Ctrl-C reaches these processes, too. They end with their JVM.
trap '' INT
export PYTHONPATH="$ENDMARK_WORKER_PATH"
if [ "$1" = -m ]; then
    shift
    if [ -S "$ENDMARK_PREFORK" ]; then
        # Without its own modules and those of the path, Python starts in 0.03 s.
        exec "$ENDMARK_WORKER_PYTHON" -I -S "${0%/*}/prefork_request.py" "$@"
    fi
    set -- -m endmark.spark.processes.python_process "$@"
fi
exec "$ENDMARK_WORKER_PYTHON" "$@"
