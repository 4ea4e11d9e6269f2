"""The caller's own files, for what documents refer to."""

import errno
from dataclasses import dataclass
from pathlib import Path

_NO_SUCH = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Paths that do not begin at the root are looked up under `root`. Only asks whether there is such a file."""

    root: Path

    def exists(self, path: str) -> bool:
        try:
            return (self.root / path.removeprefix("file://")).exists()
        except OSError as error:
            if error.errno in _NO_SUCH:
                return False
            raise
