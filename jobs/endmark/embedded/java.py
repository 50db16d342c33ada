"""Finds a Java that can run Spark and the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from endmark.errors import MissingPartError

OLDEST_JAVA = 17
_INSTALL = "install e.g. openjdk-17-jre-headless or openjdk-21-jre-headless"


def require_java() -> Path:
    """Return the path of the `java` that `JAVA_HOME` or else `PATH` names, after asking for its version.

    Raises:
        MissingPartError: there is no Java, or it is older than Java 17.
    """
    java = find_java()
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if found is None:
        raise MissingPartError(f"`{java} -version` does not name a Java version; {_INSTALL}")
    if int(found[1]) < OLDEST_JAVA:
        raise MissingPartError(
            f"Java {OLDEST_JAVA} or newer is needed but {java} is Java {found[1]}; {_INSTALL}"
        )
    return java


def find_java() -> Path:
    """Return the path of the `java` that `JAVA_HOME` or else `PATH` names, without running it.

    Raises:
        MissingPartError: there is no Java.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if os.access(java, os.X_OK):
            return java
        raise MissingPartError(f"JAVA_HOME is {home}, where there is no bin/java; correct or unset it")
    if on_path := shutil.which("java"):
        return Path(on_path)
    raise MissingPartError(
        f"Java {OLDEST_JAVA} or newer is needed but `java` was not found on PATH; {_INSTALL}"
    )
