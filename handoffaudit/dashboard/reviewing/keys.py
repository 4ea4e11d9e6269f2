"""The keys of the review page: one table, from which the help is written and by which the script acts."""

from dataclasses import dataclass

from handoffaudit.accounts.models import Role


@dataclass(frozen=True, slots=True)
class Key:
    """`keys` as a browser names them (`KeyboardEvent.key`), two with a space between them one after the other.

    `action` is the name of what the script does; `role`: who has it.
    """

    action: str
    keys: tuple[str, ...]
    does: str
    role: Role = Role.REVIEWER

    @property
    def shown(self) -> list[list[str]]:
        """As they are printed: the alternatives, each of one or more keys."""
        return [[_PRINTED.get(part, part) for part in key.split(" ")] for key in self.keys]


_PRINTED = {"ArrowDown": "↓", "ArrowUp": "↑", "Escape": "Esc", "X": "Shift x"}

KEYS = (
    Key("next", ("j", "ArrowDown"), "next (the arrow: while the queue has the focus)", Role.VIEWER),
    Key("previous", ("k", "ArrowUp"), "previous", Role.VIEWER),
    Key("approve", ("a",), "approve, and open the next one that nobody else has open; a rejected one asks for a note"),
    Key("decline", ("d",), "decline, and open the next one"),
    Key("resend", ("r",), "decline what could not be read, and ask its sender for a resend"),
    Key("handled", ("h",), "mark what could not be read as handled"),
    Key("pass", ("p",), "pass on, with a note"),
    Key("undo", ("u",), "undo what you did last; again: what you did before that"),
    Key("reopen", ("o",), "reopen one that is decided, with a note"),
    Key("note", ("n",), "write a note"),
    Key("similar", ("1", "2", "3"), "take over the note of a past decision like this one"),
    Key("send", ("Ctrl Enter",), "in the note: send what the line under it says"),
    Key("select", ("x",), "select; with some selected, a and d go to the buttons for all of them"),
    Key("range", ("X",), "select from the last selected one to here"),
    Key("all", ("* a",), "select all that are shown, with a way to all that match"),
    Key("search", ("/",), "search the queue", Role.VIEWER),
    Key("help", ("?",), "these keys", Role.VIEWER),
    Key("leave", ("Escape",), "out of a field; then nothing selected; then back to the queue", Role.VIEWER),
)


def keys_for(*, may_review: bool) -> list[Key]:
    return [key for key in KEYS if may_review or key.role is Role.VIEWER]
