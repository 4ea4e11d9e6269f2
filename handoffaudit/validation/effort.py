"""How much work one handoff may cause, counted in steps so that it is the same on every machine."""

MOST_STEPS = 300_000
"""What the rules, and the claim fields, of one handoff may take: a second at most. An honest handoff takes some
hundreds."""


class TooMuchError(Exception):
    """The steps are used up."""


class Effort:
    """Steps to be spent, shared by all that works on one handoff."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, steps: int = 1) -> None:
        """Raises TooMuchError once more is asked for than there is, and ever after."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchError
