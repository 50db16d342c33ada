#!/bin/sh
# Writes into .env which digests the images of others have now. Commit the result: from then on compose takes these
# images and no others, whatever their registries say. Needs docker and a way to the registries.
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
