"""Control of a job: the ops database that job and sidecar share, knobs, autotune, pulse and replays."""
