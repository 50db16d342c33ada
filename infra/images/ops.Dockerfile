# The sidecar: neither Java nor Spark.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md requirements.lock ./
# uv, because it checks the lock file's hashes although it installs a part of it only. Its own is checked by pip.
RUN sed -n '/^uv==/,/^    #/p' requirements.lock > uv.txt \
    && pip install --no-cache-dir --require-hashes -r uv.txt \
    && python -m venv /opt/endmark
COPY jobs jobs
COPY services services
# Compiled, since whoever runs the image may not write there, and would compile everything at each start.
RUN uv pip install --no-cache --compile-bytecode --python /opt/endmark/bin/python \
    --constraints requirements.lock --build-constraints requirements.lock ".[ops]"

FROM ${BASE}
# The user's number is the job's: both write to the volume of the ops database.
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
