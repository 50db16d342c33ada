#!/bin/sh
# Writes the current digests of the images of others into .env. Commit the result: from then on compose takes these
# images and no others, whatever their registries offer. The script needs docker and access to the registries.
set -eu
cd "$(dirname "$0")/.."
pinned=$(mktemp)
trap 'rm -f "$pinned"' EXIT
while IFS= read -r line; do
    case $line in
    *_IMAGE=*)
        image=${line#*=}
        image=${image%@*}
        docker pull --quiet "$image" > /dev/null
        digest=$(docker image inspect --format '{{index .RepoDigests 0}}' "$image" |
            sed -n 's/.*@\(sha256:[0-9a-f]\{64\}\)$/\1/p')
        [ -n "$digest" ] || { echo "docker knows no digest of $image" >&2; exit 1; }
        line="${line%%=*}=$image@$digest"
        ;;
    esac
    printf '%s\n' "$line"
done < .env > "$pinned"
cat "$pinned" > .env
