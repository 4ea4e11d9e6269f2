"""Files that handoffs refer to, where an operator lets the server look for them: `HANDOFFAUDIT_REFERENCE_ROOTS`."""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from django.conf import settings

_NO_SUCH = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ELOOP}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class RootedFiles:
    """The files below some folders, of which only the existence is asked.

    A sender chooses the path, so nothing outside the folders is touched: a path that names another place, contains `..`
    or leads out through a symbolic link is answered with None, whether or not there is such a file.
    """

    roots: tuple[Path, ...]

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, None where its place may not be looked at. Raises OSError of a failing disk.

        A path that does not begin at the root of the file system is looked up in each of the folders.
        """
        named = PurePosixPath(path.removeprefix("file://"))
        if ".." in named.parts:
            return None
        found = [_exists(root, root / named) for root in self.roots if _is_below(root, named)]
        return next((answer for answer in (True, False) if answer in found), None)


def _is_below(root: Path, named: PurePosixPath) -> bool:
    return not named.is_absolute() or named.is_relative_to(root)


def _exists(root: Path, path: Path) -> bool | None:
    try:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(root)):
            return None
        real.stat()
    except OSError as error:
        if error.errno in _NO_SUCH:
            return False
        if error.errno in _NOT_ALLOWED:
            return None
        raise
    return True


def reference_files() -> RootedFiles | None:
    """Return the view of the configured folders, or None if no folder is configured."""
    roots: Sequence[Path] = settings.REFERENCE_ROOTS
    return RootedFiles(tuple(roots)) if roots else None
