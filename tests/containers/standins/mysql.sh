#!/bin/bash
# A new database is set up by a server without TCP, as the stood-in image does it; then the server starts.
set -euo pipefail
server=(mariadbd --no-defaults --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock --skip-name-resolve
    --innodb-buffer-pool-size=128M)
docker_process_sql() { mariadb --no-defaults --user=root --socket=/run/mysqld/mysqld.sock "$@"; }
if [ ! -e /var/lib/mysql/ready ]; then
    mariadb-install-db --no-defaults --datadir=/var/lib/mysql --auth-root-authentication-method=normal \
        --skip-test-db > /dev/null
    "${server[@]}" --skip-networking &
    until mysqladmin --no-defaults --user=root --socket=/run/mysqld/mysqld.sock ping --silent; do sleep 0.2; done
    docker_process_sql <<< "CREATE DATABASE $MYSQL_DATABASE"
    for script in /docker-entrypoint-initdb.d/*; do
        case $script in
            *.sql) docker_process_sql "$MYSQL_DATABASE" < "$script" ;;
            *.sh) . "$script" ;;
        esac
    done
    docker_process_sql <<< "ALTER USER root@localhost IDENTIFIED BY '$(cat "$MYSQL_ROOT_PASSWORD_FILE")'"
    kill %1
    wait %1
    touch /var/lib/mysql/ready
fi
exec "${server[@]}" --bind-address=0.0.0.0
