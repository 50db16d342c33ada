"""A base image from Debian's packages, for machines that reach no image registry.

It is Debian with Python under the names of the `python` image, and trusts whom this machine trusts, since
packages may come through a proxy that presents a certificate of its own.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

IMAGE = "endmark-test-base"
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
_PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
# `pip` and `uv` bring certificates of their own unless told otherwise.
_ENVIRONMENT = " ".join(f"{name}={_TRUSTED}" for name in ("PIP_CERT", "SSL_CERT_FILE"))


def make_base_image(scratch: Path) -> None:
    """Build `IMAGE` below the directory `scratch`, in about a minute. Needs root and `debootstrap`."""
    root = scratch / "base"
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    _trust(root)
    (root / "usr/bin/python").symlink_to("python3")
    # The `python` image lets pip install beside the system's packages; Debian's does not.
    (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
    archive = subprocess.Popen(["tar", "--directory", root, "--create", "."], stdout=subprocess.PIPE)
    command = ["docker", "import", "--change", f"ENV {_ENVIRONMENT}", "-", IMAGE]
    subprocess.run(command, stdin=archive.stdout, check=True, stdout=subprocess.DEVNULL)
    if archive.wait() != 0:
        raise RuntimeError(f"tar could not read {root}")


def _trust(root: Path) -> None:
    here = set(_CERTIFICATE.findall(_TRUSTED.read_text()))
    debian = set(_CERTIFICATE.findall((root / _TRUSTED.relative_to("/")).read_text()))
    for number, certificate in enumerate(sorted(here - debian)):
        added = root / f"usr/local/share/ca-certificates/machine-{number}.crt"
        added.write_text(certificate)
    subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)
