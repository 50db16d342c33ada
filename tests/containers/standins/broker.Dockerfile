# Stands in for apache/kafka where no registry can be reached: the same environment, paths and ports.
FROM endmark-job
USER root
RUN python -c "from endmark.embedded.jars import broker_jars; broker_jars(print)" \
    && mkdir -p /opt/kafka/bin \
    && ln -s /opt/endmark/home/jars/*/broker /opt/kafka/libs \
    && install --directory --owner=endmark --group=endmark /var/lib/kafka/data
COPY broker.sh /usr/local/bin/broker.sh
COPY broker-api-versions.sh /opt/kafka/bin/kafka-broker-api-versions.sh
USER endmark
ENTRYPOINT ["broker.sh"]
