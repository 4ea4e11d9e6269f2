"""The static files of all test clients, which each of thousands of clients would otherwise look up in the folder."""

from pathlib import Path
from typing import Any

from whitenoise.base import WhiteNoise

MANIFEST = "staticfiles.json"


def install() -> None:
    """Let WhiteNoise look once through a folder whose static files are collected."""
    original = WhiteNoise.update_files_dictionary
    known: dict[tuple[str, str, int], dict[str, Any]] = {}

    def update_files_dictionary(self: WhiteNoise, root: str, prefix: str) -> None:
        manifest = Path(root, MANIFEST)
        if self.files or not manifest.is_file():
            original(self, root, prefix)
            return
        # The manifest is written anew whenever files are collected.
        key = (root, prefix, manifest.stat().st_mtime_ns)
        if key not in known:
            original(self, root, prefix)
            known[key] = self.files
        self.files = dict(known[key])

    WhiteNoise.update_files_dictionary = update_files_dictionary
