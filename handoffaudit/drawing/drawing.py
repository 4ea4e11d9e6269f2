"""What every drawing is: SVG, and the same in words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawing:
    """`svg` is safe to put into a page as it is: all text in it is escaped, and it carries no script and no style.

    `text` says the same in sentences; where the drawing shows numbers, `columns` and `rows` are its table.
    """

    svg: str
    text: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
