"""Where handoff files are expected below a folder, and whose they are by their path."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

PLACEHOLDERS: Final = ("run", "phase", "agent", "runtime")
DEFAULT: Final = "**/handoff.json"
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\{([^{}]*)\}|[{}]|[^*{}]+")


class BadPattern(ValueError):
    """The message says what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """`text` is relative to the folder, with `/`: `*` is a part of a name, `**` any folders, and `{agent}` a name."""

    text: str
    _whole: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """Raises BadPattern."""
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts or text.endswith("/"):
            raise BadPattern(
                f"{text!r} is not a path below the folder: write it like {{phase}}/{{agent}}/handoff.json."
            )
        return cls(text, _compiled(text))

    def names(self, path: str) -> Mapping[str, str] | None:
        """What the placeholders stand for in a path below the folder; None where it is not expected there."""
        found = self._whole.fullmatch(path)
        return found.groupdict() if found else None

    @property
    def file_name(self) -> str:
        """The name of the file, empty where it is not always the same."""
        name = PurePosixPath(self.text).name
        return "" if re.search(r"[*{}]", name) else name

    def folder(self) -> "Pattern | None":
        """The pattern of the folders that a file is expected in; None where they are not told apart by placeholders."""
        above = str(PurePosixPath(self.text).parent)
        return Pattern(above, _compiled(above)) if self.file_name and "{" in above else None


def _compiled(text: str) -> re.Pattern[str]:
    written, named = "", set[str]()
    for token in _TOKEN.finditer(text):
        name = token[1]
        if name is not None or token[0] in "{}":
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
                raise BadPattern(f"{text!r} has {token[0]!r}, which is no placeholder: use {known}.")
            written += f"(?P={name})" if name in named else f"(?P<{name}>[^/]+)"
            named.add(name)
        else:
            written += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}.get(token[0]) or re.escape(token[0])
    return re.compile(written)


def whose(path: str, names: Mapping[str, str], folder: str) -> dict[str, str]:
    """Run, phase, agent and runtime of a file; what no placeholder says is taken from the folders above it: the nearest
    is the agent's, the next the phase's."""
    above = PurePosixPath(path).parts[:-1]
    agent = above[-1] if above else folder
    phase = above[-2] if len(above) > 1 else agent
    return {"run": folder, "phase": phase, "agent": agent, "runtime": ""} | {
        name: value for name, value in names.items() if value
    }
