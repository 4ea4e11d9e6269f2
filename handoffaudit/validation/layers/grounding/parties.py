"""Checks of statements about two parties of a record (home and away, buyer and seller), and about times of day."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from handoffaudit.validation.layers.grounding.records import Records
from handoffaudit.validation.layers.grounding.sentences import Finding, Sentence
from handoffaudit.validation.layers.grounding.values import TextValue
from handoffaudit.validation.layers.grounding.vocabulary import NUMBER_WORDS, minutes_of
from handoffaudit.validation.text import lower_in_place

_ORDINALS = {
    "first": "1",
    "1st": "1",
    "opening": "1",
    "second": "2",
    "2nd": "2",
    "third": "3",
    "3rd": "3",
    "fourth": "4",
    "4th": "4",
}
_ARTICLES = {"a": 1, "an": 1, "one": 1, "single": 1, "lone": 1, "no": 0, "zero": 0}
_ORDINAL = re.compile(rf"\b({'|'.join(_ORDINALS)})(?: and ({'|'.join(_ORDINALS)}))?\b", re.IGNORECASE)
_COUNT = re.compile(
    rf"\b(\d{{1,2}}|{'|'.join(_ARTICLES)}|{'|'.join(list(NUMBER_WORDS)[:9])})\b"
    r"(?= (?:(?:more|additional|last|other|late|quick|consecutive|unanswered) )?"
    r"(?:\w+s?,? (?:in|during|coming)|more\b|in the)| \w+,? (?:in|during))",
    re.IGNORECASE,
)
_PAIR = re.compile(r"(?<![\d./-])(\d{1,2}) ?[-\u2013] ?(\d{1,2})(?![\d./-])")
_MORE = re.compile(
    r"\b(?:won|emerged (?:as the )?(?:victor|winner)\w*|defeated|beat"
    r"|secur\w+ (?:a|the|their|an) [\w -]{0,25}(?:win|victory)|claim\w* [\w -]{0,20}victory|(in favou?r of))\b",
    re.IGNORECASE,
)
# `victor` must be in lower case, because Victor and Victory can be names.
_FINAL = re.compile(r"(?i:\b(?:final|won|win|ended)\b|defeat)|victor")
_WORD = re.compile(r"[^\W\d_]{4,}")
_NEAR = 32
_BEFORE = 200
_LONGEST_NAME = 3
_EPOCHS = (5e8, 2.2e9)


@dataclass(frozen=True, slots=True)
class Party:
    """One of two parties. `role` is the first word of its keys (`home` for `homeTeam` and `homeScore`)."""

    role: str
    names: frozenset[str]
    numbers: dict[tuple[str, ...], float]

    @property
    def total(self) -> float:
        """Return the first number of the party, which is taken as the sum of its other numbers."""
        return next(iter(self.numbers.values()), 0.0)


def parties_of(records: Records) -> tuple[Party, Party] | None:
    """Return the two parties of a record, or None if there are not exactly two.

    The facts of a party are below keys of two words that share the first word, such as `homeTeam` and `homeScore`. A
    party has at least one name and one number.
    """
    names: dict[str, list[str]] = {}
    numbers: dict[str, dict[tuple[str, ...], float]] = {}
    for fact in records.facts:
        if len(fact.group) == 2 and "id" not in fact.key:
            number = fact.number
            if number is None:
                names.setdefault(fact.group[0], []).append(fact.value)
            else:
                numbers.setdefault(fact.group[0], {})[fact.key] = number
    roles = [role for role in numbers if role in names]
    if len(roles) != 2:
        return None
    one, other = (Party(role, frozenset(_name_words(names[role])), numbers[role]) for role in roles)
    return (_apart(one, other), _apart(other, one))


def _name_words(names: list[str]) -> Iterator[str]:
    for name in names:
        if len(name) > _LONGEST_NAME:
            yield lower_in_place(name)
            yield from (lower_in_place(word) for word in _WORD.findall(name))


def _apart(party: Party, other: Party) -> Party:
    return Party(party.role, party.names - other.names, party.numbers)


@dataclass(frozen=True, slots=True)
class _Mention:
    start: int
    party: Party


def party_findings(text: str, sentences: Sequence[Sentence], parties: tuple[Party, Party]) -> Iterator[Finding]:
    """Yield the findings on statements about the numbers of the parties."""
    mentions = sorted(_mentions(text, parties), key=_start)
    numbered = {key[0] for key in parties[0].numbers if len(key) == 2 and key[1].isdigit()}
    for sentence in sentences:
        here = _between(mentions, sentence.start - _BEFORE, sentence.end)
        yield from _scores(sentence, parties, numbered)
        yield from _winners(sentence, here, parties)
        if any(word in sentence.text.lower() for word in numbered):
            yield from _check_numbered_parts(sentence, here, parties, numbered)


def _start(mention: _Mention) -> int:
    return mention.start


def _between(mentions: Sequence[_Mention], start: int, end: int) -> Sequence[_Mention]:
    """Return the mentions that start at or after `start` and before `end`. `mentions` must be in order."""
    return mentions[bisect_left(mentions, start, key=_start) : bisect_left(mentions, end, key=_start)]


def _mentions(text: str, parties: tuple[Party, Party]) -> Iterator[_Mention]:
    lowered = lower_in_place(text)
    for party in parties:
        for name in (*party.names, f"{party.role} team", f"{party.role} side"):
            at = lowered.find(name)
            while at >= 0:
                yield _Mention(at, party)
                at = lowered.find(name, at + len(name))


def _check_numbered_parts(
    sentence: Sentence, mentions: Sequence[_Mention], parties: tuple[Party, Party], words: set[str]
) -> Iterator[Finding]:
    """Yield the findings on counts of a numbered part, such as `two goals in the second period`.

    The count must equal the number of this part (key `period2`) of the party that the text mentions last before the
    count. If the sentence has `each` or `both`, or no party is mentioned before the count, either party may have this
    number. For `the first and second period`, the sum of the two numbers is right, too.
    """
    counts = [
        (sentence.start + match.start(), sentence.start + match.end(), _count(match[1]))
        for match in _COUNT.finditer(sentence.text)
    ]
    ends = [end for _, end, _ in counts]
    lowered = sentence.text.lower()
    everyone = "each" in lowered or "both" in lowered
    for match in _ORDINAL.finditer(sentence.text):
        at = sentence.start + match.start()
        last = bisect_right(ends, at) - 1
        if last < 0 or at - ends[last] >= _NEAR:
            continue
        start, end, claimed = counts[last]
        between = sentence.text[end - sentence.start : match.start()]
        if "," in between or " and " in between:
            continue
        keys = [(word, _ORDINALS[ordinal.lower()]) for word in words for ordinal in match.groups() if ordinal]
        spoken = bisect_left(mentions, start, key=_start)
        candidates = parties if everyone or not spoken else (mentions[spoken - 1].party,)
        given = [[party.numbers[key] for key in keys if key in party.numbers] for party in candidates]
        if any(given):
            agrees = any(claimed in numbers or claimed == sum(numbers) for numbers in given)
            yield Finding("numbered", start, sentence.start + match.end(), agrees)


def _count(word: str) -> int:
    lowered = word.lower()
    return int(word) if word.isdigit() else _ARTICLES.get(lowered, NUMBER_WORDS.get(lowered, -1))


def _scores(sentence: Sentence, parties: tuple[Party, Party], words: set[str]) -> Iterator[Finding]:
    """Yield the findings on scores, such as `4-1`.

    A score must be a pair of numbers of the two parties, or an intermediate score: the sums of the two parties up to
    the same numbered part. If a numbered part is named before the score (`in the second period, 1-1`), the score must
    be the pair of this part or the intermediate score at its end. Otherwise, if the words around the score are about
    the end (`won 4-1`) and do not contain `period`, the score must be the pair of the totals.
    """
    one, other = parties
    final = {(one.total, other.total), (other.total, one.total)}
    pairs = set(final)
    by_part: dict[tuple[str, ...], set[tuple[float, float]]] = {}
    running = (0.0, 0.0)
    for key, number in one.numbers.items():
        beside = other.numbers.get(key)
        if beside is not None:
            pairs |= {(number, beside), (beside, number)}
            if key[-1].isdigit():
                running = (running[0] + number, running[1] + beside)
                pairs |= {running, running[::-1]}
                by_part[key] = {(number, beside), (beside, number), running, running[::-1]}
    parts = [
        (match.start(), by_part[key])
        for match in _ORDINAL.finditer(sentence.text)
        for word in words
        if sentence.text[match.end() : match.end() + len(word) + 1].lower() == f" {word}"
        and (key := (word, _ORDINALS[match[1].lower()])) in by_part
    ]
    last = 0
    for match in _PAIR.finditer(sentence.text):
        pair = (float(match[1]), float(match[2]))
        around = sentence.text[max(0, match.start() - 60) : match.end() + 30]
        named = [wanted for at, wanted in parts if last <= at < match.start()]
        wanted = named[-1] if named else final if _FINAL.search(around) and "period" not in around.lower() else pairs
        last = match.end()
        start = sentence.start + match.start()
        yield Finding("score", start, start + len(match[0]), pair in wanted)


def _winners(sentence: Sentence, mentions: Sequence[_Mention], parties: tuple[Party, Party]) -> Iterator[Finding]:
    """Yield the findings on winners: the party that is said to have won must have the greater number."""
    one, other = parties
    if one.total == other.total:
        return
    winner = one if one.total > other.total else other
    for match in _MORE.finditer(sentence.text):
        start, end = sentence.start + match.start(), sentence.start + match.end()
        if match[1]:
            subject = _between(mentions, start, sentence.end)[:1]
        else:
            subject = _between(mentions, sentence.start, start)[-1:]
        if subject:
            yield Finding("winner", start, end, subject[0].party is winner)


def clock_findings(values: Sequence[TextValue], records: Records) -> Iterator[Finding]:
    """Yield the findings on times of day, compared with the timestamps of the data (seconds since 1970, in UTC)."""
    low, high = _EPOCHS
    moments = [
        datetime.fromtimestamp(n, UTC)
        for fact in records.facts
        if (n := fact.number) and low < n < high and n == int(n)
    ]
    minutes = {moment.hour * 60 + moment.minute for moment in moments}
    for value in values if minutes else ():
        if value.kind == "time":
            yield Finding("clock", value.start, value.end, minutes_of(value.text) in minutes)
