#!/usr/bin/env bash
# Installs the Debian packages that the tests use; with `containers`, also those of tests/containers. Installed packages
# are left alone.
set -euo pipefail

wanted=()
if [ "${1:-}" = containers ]; then
  command -v dockerd >/dev/null || wanted+=(docker.io iptables)
  command -v debootstrap >/dev/null || wanted+=(debootstrap)
fi
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || wanted+=(mariadb-server)
command -v chromium >/dev/null || wanted+=(chromium)
command -v npm >/dev/null || wanted+=(npm)
command -v docker-compose >/dev/null || wanted+=(docker-compose)
command -v promtool >/dev/null || wanted+=(prometheus)
[ ${#wanted[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests need ${wanted[*]}; install them and try again." >&2
  exit 2
fi
echo "installing ${wanted[*]}"
apt-get update -qq
# The tests start their own servers; Debian's must not come up beside them.
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
