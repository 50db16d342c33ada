# The Spark side: master, worker, job and feed are the same image with different commands. For newer versions:
# --build-arg BASE=python:3.13-slim-trixie --build-arg JAVA=21
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md requirements.lock infra/images/overrides.txt ./
# We use uv because it checks the lock file's hashes although it installs only a part of it. pip checks uv's own hash.
RUN sed -n '/^uv==/,/^    #/p' requirements.lock > uv.txt \
    && pip install --no-cache-dir --require-hashes -r uv.txt \
    && python -m venv /opt/endmark
COPY jobs jobs
COPY services services
# Modules are compiled here, since the user of the image may not write there, and would compile them at each start.
RUN uv pip install --no-cache --compile-bytecode --python /opt/endmark/bin/python \
    --constraints requirements.lock --build-constraints requirements.lock --overrides overrides.txt \
    ".[spark,verify,postgresql]"

FROM ${BASE}
ARG JAVA=17
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-${JAVA}-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home endmark \
    && install --directory --owner=endmark --group=endmark /data/warehouse /data/checkpoint /data/ops
COPY --from=build /opt/endmark /opt/endmark
ENV PATH=/opt/endmark/bin:$PATH \
    ENDMARK_HOME=/opt/endmark/home \
    SPARK_HOME=/opt/endmark/spark \
    SPARK_CONF_DIR=/etc/spark \
    PYTHONUNBUFFERED=1
RUN ln -s "$(python -c 'import pyspark; print(*pyspark.__path__)')" "$SPARK_HOME"
# Jars belong to the image: a start must not wait for the network.
RUN python -c "from endmark.embedded.jars import s3_jars, spark_jars; spark_jars(print); s3_jars(print)" \
    && mkdir /opt/endmark/jars \
    && ln -s "$ENDMARK_HOME"/jars/*/spark/*.jar "$ENDMARK_HOME"/jars/*/s3/*.jar /opt/endmark/jars
COPY jobs/pipeline.py /opt/endmark/pipeline.py
COPY infra/images/sbom.py /usr/local/lib/sbom.py
RUN python /usr/local/lib/sbom.py /opt/endmark > /opt/endmark/sbom.json
COPY infra/images/spark-defaults.conf /etc/spark/spark-defaults.conf
COPY infra/images/entrypoint.sh /usr/local/bin/entrypoint.sh
USER endmark
WORKDIR /home/endmark
ENTRYPOINT ["entrypoint.sh"]
