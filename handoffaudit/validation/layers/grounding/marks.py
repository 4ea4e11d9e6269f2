"""What a claim's values rest on: the texts that claims are looked up in, and the marks that looking up leaves."""

from typing import Literal, NamedTuple

Kind = Literal["number", "date", "name", "quote", "identifier", "wording"]
Status = Literal["grounded", "derived", "ungrounded"]


class Source(NamedTuple):
    """One text that claims may rest on.

    `name` is shown to people (`context.page`, `evidence[2].content`). A value of structured data is a source of
    its own, named by its path (`context.order.total`); a text that is itself JSON, CSV or `key: value` lines is given
    whole. `keys` is the part of that path inside the supplied value (`.total` of `context.order`): these keys are
    content like the text, while the name of the value itself is only what the sender calls it.
    """

    name: str
    text: str
    keys: str = ""


class Mark(NamedTuple):
    """One value of a claim, or a run of words (`wording`), with what it rests on.

    `start` and `end` are character offsets in the claim's text, half-open. `where` names the sources of a grounded
    value and says what a derived one was made from (`3 + 4`, `rounded from 54.0267`). `closest` is the value of the
    sources that looks most like an ungrounded one, where there is one.
    """

    kind: Kind
    start: int
    end: int
    text: str
    status: Status
    where: tuple[str, ...] = ()
    closest: str = ""
