"""Secrets that a model was not shown, put back into the document that it wrote."""

from typing import Any

from handoffaudit.validation.asking.masking import MASKED
from handoffaudit.validation.differing import same


class LostSecretError(Exception):
    """A masked value stands where nobody can say what it was."""


def unmasked(answer: Any, shown: Any, before: Any) -> Any:
    """`answer` with the values of `before` in place of what was masked in `shown`, the copy that the model was given.

    A value comes back at its place, or among the entries of the list that it was in. Raises
    `LostSecretError` where a mask is left over: a secret that moved is not guessed.
    """
    if same(answer, shown):
        return before
    if isinstance(answer, dict) and isinstance(shown, dict):
        # A secret can be a key, and then nothing says which.
        _free_of_masks(dict.fromkeys(answer))
        return {key: unmasked(value, shown.get(key), before.get(key)) for key, value in answer.items()}
    if isinstance(answer, list) and isinstance(shown, list):
        return _entries(answer, shown, before)
    return _free_of_masks(answer)


def _entries(answer: list[Any], shown: list[Any], before: list[Any]) -> list[Any]:
    """By their position where none came or went; else only those that stayed as they were, wherever they stand now."""
    if len(answer) == len(shown):
        return [unmasked(*three) for three in zip(answer, shown, before, strict=True)]
    return [_entry(entry, shown, before) for entry in answer]


def _entry(entry: Any, shown: list[Any], before: list[Any]) -> Any:
    found = [before[place] for place, one in enumerate(shown) if same(entry, one)]
    if not found:
        return _free_of_masks(entry)
    # two secrets look the same once they are masked
    if any(not same(one, found[0]) for one in found):
        raise LostSecretError
    return found[0]


def _free_of_masks(value: Any) -> Any:
    level = [value]
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, str) and MASKED in one:
                raise LostSecretError
            if isinstance(one, dict):
                below.extend((*one, *one.values()))
            elif isinstance(one, list):
                below.extend(one)
        level = below
    return value
