# Stands in for mysql where no registry can be reached: MariaDB with the same environment and start-up scripts.
ARG BASE
FROM ${BASE}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends mariadb-server \
    && rm -rf /var/lib/apt/lists/* /var/lib/mysql \
    && install --directory --owner=mysql --group=mysql /var/lib/mysql /run/mysqld
COPY mysql.sh /usr/local/bin/mysql.sh
USER mysql
ENTRYPOINT ["mysql.sh"]
