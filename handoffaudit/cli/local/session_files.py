"""Session contexts that `handoffaudit repair` writes beside the sender's files."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from handoffaudit.validation.handoff_files import write_new
from handoffaudit.validation.repair import check_inside


@dataclass(slots=True)
class SessionFiles:
    """A `FileStore` in the folders that documents name as `session_path`, relative ones under `root`.

    The session's folder must be there, and its path must not contain `..`: the sender of the document chose it. A file
    that is there is never overwritten: other content gets `-2`, `-3`, … before `.json`.
    """

    root: Path
    written: dict[str, bytes] = field(default_factory=dict)
    _created: dict[str, Path] = field(default_factory=dict)

    def write(self, path: str, content: bytes) -> str:
        target = self.root / path
        _check_folder(target, path)
        there = set(target.parent.iterdir()) if target.parent.exists() else set()
        file = write_new(content, target)
        name = f"{path.rpartition('/')[0]}/{file.name}"
        self.written[name] = content
        if file not in there:
            self._created[name] = file
        return name

    def keep_only(self, name: str | None) -> None:
        """Remove the files that this run created, but for the one that the candidate refers to."""
        for created, file in self._created.items():
            if created != name:
                file.unlink(missing_ok=True)
                with suppress(OSError):  # the folder may hold other files
                    file.parent.rmdir()


def _check_folder(target: Path, named: str) -> None:
    """Refuse a session folder that is not there or leads upwards, and a link in place of its folder of handoffs."""
    folder, session = target.parent, target.parent.parent
    check_inside(named)
    if not session.is_dir():
        raise NotADirectoryError(0, f"there is no folder {session}")
    if folder.is_symlink():
        raise PermissionError(0, f"{folder} is a link")
