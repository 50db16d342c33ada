#!/usr/bin/env bash
# Writes all parts that spark-submit takes to a cluster: infra/package.sh DIRECTORY
#
# environment.tar.gz has endmark and its locked packages, without Spark, which a cluster has. Its Python is a link to
# that of this machine, so nodes must have the same Python at the same place.
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
# We use uv because it checks the lock file's hashes although it installs only a part of it. It copies files, because
# tar takes a file that is linked to uv's cache for changed when others link to it.
uv pip install --quiet --link-mode copy --python "$scratch/environment/bin/python" \
  --constraints requirements.lock --overrides "$scratch/without.txt" "$wheel[spark,verify,postgresql]"
tar --create --gzip --file "$target/environment.tar.gz" --directory "$scratch/environment" .
python - "$target/jars" <<'END'
import shutil
import sys

from endmark.embedded.jars import s3_jars, spark_jars

for jar in [*spark_jars(print), *s3_jars(print)]:
    shutil.copy(jar, sys.argv[1])
END
cp jobs/pipeline.py "$wheel" "$target"
