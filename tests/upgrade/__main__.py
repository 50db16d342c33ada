"""`make keep-version`: keep jobs of this version, with which later ones must go on."""

from __future__ import annotations

import sys
from importlib.metadata import version

from upgrade.kept import VERSIONS, keep


def main() -> int:
    archive = VERSIONS / f"{version('endmark')}.tar.gz"
    if archive.exists():
        print(f"{archive.name} is there already; a version that is out keeps its files", file=sys.stderr)
        return 1
    keep(archive)
    print(f"{archive.name} has {archive.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
