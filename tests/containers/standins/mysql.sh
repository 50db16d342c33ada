#!/bin/bash
# A new database is set up by a server without TCP, as the stood-in image does it; then the server starts.
set -euo pipefail
tables=/var/lib/mysql/tables
server=(/opt/mysql/bin/mysqld --no-defaults "--datadir=$tables" --socket=/var/lib/mysql/server.sock
    --skip-name-resolve --mysqlx=OFF --innodb-buffer-pool-size=128M)
client=(--no-defaults --user=root --socket=/var/lib/mysql/server.sock)
docker_process_sql() { mariadb "${client[@]}" "$@"; }
if [ ! -e /var/lib/mysql/ready ]; then
    "${server[@]}" --initialize-insecure
    "${server[@]}" --skip-networking &
    until mysqladmin "${client[@]}" ping --silent; do sleep 0.2; done
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
