"""Print the parts of the image in which this runs as CycloneDX: Python packages, and jars below directories.

python sbom.py DIRECTORY...
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

_FILE_NAME = re.compile(r"(?P<artifact>.+?)-(?P<version>\d.*)")

Component = dict[str, object]


def python_packages() -> Iterator[Component]:
    """One component per distribution that this interpreter can import."""
    for package in distributions():
        name = re.sub(r"[-_.]+", "-", package.name).lower()
        purl = f"pkg:pypi/{name}@{package.version}"
        yield {"type": "library", "name": name, "version": package.version, "purl": purl, "bom-ref": purl}


def jars(directory: Path) -> Iterator[Component]:
    """One component per jar, called as its Maven properties say, or else as its file."""
    for file in sorted(directory.rglob("*.jar")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        component: Component = {"type": "library", "hashes": [{"alg": "SHA-256", "content": digest}]}
        # The same jar may be there twice, so its path is what tells it apart.
        yield component | _named(file) | {"bom-ref": str(file)}


def _named(jar: Path) -> Component:
    with zipfile.ZipFile(jar) as archive:
        texts = [
            archive.read(name).decode() for name in archive.namelist() if name.endswith("/pom.properties")
        ]
    for text in texts:
        maven = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
        # A jar with others packed into it has the properties of those, too.
        if f"{maven.get('artifactId')}-{maven.get('version')}" == jar.stem:
            group, name, version = (maven[key] for key in ("groupId", "artifactId", "version"))
            return {
                "group": group,
                "name": name,
                "version": version,
                "purl": f"pkg:maven/{group}/{name}@{version}",
            }
    found = _FILE_NAME.fullmatch(jar.stem)
    return {"name": found["artifact"], "version": found["version"]} if found else {"name": jar.stem}


def main() -> None:
    components = [*python_packages(), *(jar for name in sys.argv[1:] for jar in jars(Path(name)))]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    print(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main()
