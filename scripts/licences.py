"""List the licences of all dependencies in requirements.lock: `python scripts/licences.py [FILE]`.

Run the script in an environment with these dependencies. It writes a table as CSV, and exits with 1 if a licence is
unknown or not on the list of allowed licences.
"""

import csv
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

LOCK = Path(__file__).parents[1] / "requirements.lock"
# Licences that permit to use and to distribute the product under its own licence (MIT).
ALLOWED = {
    *(
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
    ),
    *("Unlicense", "Zlib", "CC0-1.0", "BlueOak-1.0.0", "Unicode-3.0"),
    # Libraries under the LGPL are used as they are, as separate packages that anybody can replace.
    *("LGPL-3.0-only", "LGPL-3.0-or-later", "LGPL-2.1-or-later"),
}
# Names in the older fields License and Classifier.
NAMES = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    # These names leave open which of the BSD licences is meant. All of them are allowed.
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd-3-clause license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "gnu lesser general public license v3 or later (lgplv3+)": "LGPL-3.0-or-later",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "psf": "PSF-2.0",
}
# Licences that the metadata does not say, from the licence files of the distributions.
READ_BY_HAND = {
    # The classifier "Other/Proprietary License" stands for the registered trademark "QR Code".
    "qrcode": "BSD-3-Clause AND MIT",
}


class Dependency(NamedTuple):
    name: str
    version: str
    licence: str
    is_allowed: bool


def locked_names(text: str) -> list[str]:
    """Return the names of the distributions in a lock file."""
    return re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==", text, re.MULTILINE)


def list_dependencies(names: list[str]) -> Iterator[Dependency]:
    """Yield the installed dependencies with their licences. A dependency of another platform is left out."""
    for name in names:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        licence = READ_BY_HAND.get(name) or read_licence(found.metadata)
        yield Dependency(name, found.version, licence, is_allowed(licence))


def read_licence(metadata: importlib.metadata.PackageMetadata) -> str:
    """Return the SPDX expression of a distribution, or an empty text if its metadata names no licence."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", []) if "License ::" in line]
    given = [name for name in classifiers if name != "OSI Approved"] or [str(metadata.get("License") or "")]
    # A few distributions put the whole text of the licence into the field.
    names = [line.strip().splitlines()[0].strip() if line.strip() else "" for line in given]
    return " AND ".join(dict.fromkeys(NAMES.get(name.lower(), name) for name in names if name))


def is_allowed(expression: str) -> bool:
    """Return whether each licence in the expression is allowed, also those that the expression offers as a choice."""
    names = re.split(r" OR | AND ", re.sub(r"[()]", "", expression))
    return all(name.partition(" WITH ")[0].strip() in ALLOWED for name in names)


def write(found: list[Dependency], out: TextIO) -> None:
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["name", "version", "licence"])
    table.writerows(one[:3] for one in found)


def main() -> int:
    found = list(list_dependencies(locked_names(LOCK.read_text())))
    if sys.argv[1:]:
        with Path(sys.argv[1]).open("w") as file:
            write(found, file)
    else:
        write(found, sys.stdout)
    wrong = [one for one in found if not one.is_allowed]
    for one in wrong:
        sys.stderr.write(f"{one.name} {one.version} has the licence {one.licence!r}, which is not on the list.\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
