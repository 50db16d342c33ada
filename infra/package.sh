#!/usr/bin/env bash
# Everything that spark-submit takes to a cluster: infra/package.sh DIRECTORY
#
# environment.tar.gz has endmark and its packages as locked, without Spark, which a cluster has. Its Python is a
# link to the one of this machine, so nodes must have the same Python at the same place.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath --canonicalize-missing "$1")
interpreter=$(python -c 'import sys; print(sys._base_executable)')
scratch=$(mktemp --directory)
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$target/jars"
rm -f "$target"/endmark-*.whl "$target"/jars/*.jar
uv build --quiet --wheel --no-build-isolation --python "$(command -v python)" --out-dir "$scratch"
wheel=$(echo "$scratch"/endmark-*.whl)
echo 'pyspark; python_version < "3"' > "$scratch/without.txt"
uv venv --quiet --relocatable --python "$interpreter" "$scratch/environment"
# uv, because it checks the lock file's hashes although it installs a part of it only. Copies, because files that
# are linked to its cache change, to tar, when others link to them.
uv pip install --quiet --link-mode copy --python "$scratch/environment/bin/python" \
  --constraints requirements.lock --overrides "$scratch/without.txt" "$wheel[spark,verify,postgresql]"
tar --create --gzip --file "$target/environment.tar.gz" --directory "$scratch/environment" .
python - "$target/jars" <<'END'
import shutil
import sys

from endmark.embedded.jars import spark_jars

for jar in spark_jars(print):
    shutil.copy(jar, sys.argv[1])
END
cp jobs/pipeline.py "$wheel" "$target"
