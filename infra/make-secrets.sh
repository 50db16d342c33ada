#!/bin/sh
# Makes the passwords and certificates that docker-compose.yml mounts. Those that exist stay, since the database and the
# broker know them.
set -eu
cd "$(dirname "$0")/secrets"
# The directory keeps other users of this machine out. The files are open, because a container's own user reads them
# inside that container.
chmod 700 .
umask 022
for name in mysql_root mysql_job mysql_loader kafka_feed kafka_job kafka_operator spark grafana_admin; do
    [ -s "$name.txt" ] || od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' > "$name.txt"
done
[ -s ops_tokens.txt ] || echo "operator:write:$(od -An -N 24 -t x1 /dev/urandom | tr -d ' \n')" > ops_tokens.txt

# The authority's key signs two certificates, and is not kept. To renew these, remove kafka_ca.pem.
if [ ! -s kafka_ca.pem ]; then
    command -v openssl > /dev/null || { echo "openssl is missing, which makes certificates; install it" >&2; exit 1; }
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    sign() { # NAME EXTENSIONS
        echo "$2" > "$scratch/extensions"
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
            -keyout "$scratch/key.pem" -out "$scratch/request.pem" 2> /dev/null
        openssl x509 -req -in "$scratch/request.pem" -CA "$scratch/ca.pem" -CAkey "$scratch/ca.key" -CAcreateserial \
            -extfile "$scratch/extensions" -days 3650 -out "$scratch/certificate.pem" 2> /dev/null
        cat "$scratch/key.pem" "$scratch/certificate.pem" > "kafka_$1.pem"
    }
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=endmark compose" \
        -keyout "$scratch/ca.key" -out "$scratch/ca.pem" 2> /dev/null
    sign broker "subjectAltName=DNS:broker,DNS:localhost,IP:127.0.0.1"
    sign admin "extendedKeyUsage=clientAuth"
    cat "$scratch/ca.pem" > kafka_ca.pem
fi
