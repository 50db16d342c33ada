#!/bin/sh
# Makes the passwords that docker-compose.yml mounts. Existing passwords stay, since the database knows them.
set -eu
cd "$(dirname "$0")/secrets"
# The directory keeps other users of this machine out. The files are open, because a container's own user reads them
# inside that container.
chmod 700 .
umask 022
for name in mysql_root mysql_job mysql_loader spark grafana_admin; do
    [ -s "$name.txt" ] || od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' > "$name.txt"
done
[ -s ops_tokens.txt ] || echo "operator:write:$(od -An -N 24 -t x1 /dev/urandom | tr -d ' \n')" > ops_tokens.txt
