# The sidecar, which needs neither Java nor Spark.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md requirements.lock ./
# We use uv because it checks the lock file's hashes although it installs only a part of it. pip checks uv's own hash.
RUN sed -n '/^uv==/,/^    #/p' requirements.lock > uv.txt \
    && pip install --no-cache-dir --require-hashes -r uv.txt \
    && python -m venv /opt/endmark
COPY jobs jobs
COPY services services
# Modules are compiled here, since the user of the image may not write there, and would compile them at each start.
RUN uv pip install --no-cache --compile-bytecode --python /opt/endmark/bin/python \
    --constraints requirements.lock --build-constraints requirements.lock ".[ops]"

FROM ${BASE}
# The user has the same number as the job's, since both write to the volume of the ops database.
RUN useradd --uid 10001 --create-home endmark \
    && install --directory --owner=endmark --group=endmark /data/ops /data/warehouse
COPY --from=build /opt/endmark /opt/endmark
ENV PATH=/opt/endmark/bin:$PATH \
    PYTHONUNBUFFERED=1
COPY infra/images/sbom.py /usr/local/lib/sbom.py
RUN python /usr/local/lib/sbom.py > /opt/endmark/sbom.json
USER endmark
WORKDIR /home/endmark
ENTRYPOINT ["endmark"]
