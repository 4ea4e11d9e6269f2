"""The upper bound on the cost of checking data against a JSON Schema, known before any check.

The validator cannot be interrupted, and a schema of a few lines can keep it busy for years. Such a schema has
references that branch at every step, alternatives that recurse, or nested `unevaluatedProperties`. The steps are
therefore bounded in advance. `profile` returns, for each depth of the data, the most steps that one value can cost
there. `steps` returns the most steps for a whole document.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from handoffaudit.validation.json_text import MAX_DEPTH

Schema = dict[str, Any] | bool

Profile = tuple[int, ...]

_META = "https://json-schema.org/draft/2020-12/"

DRAFT = f"{_META}schema"

MOST_SCHEMAS = 2_000

MOST_LINKS = 50_000

ENDLESS = 10**12

_META_STEPS = 400

_UNEVALUATED_STEPS = 20

_UNEVALUATED_FACTOR = 3

# The steps of `multipleOf`, measured for 1e300 and 1e-300, which need exact arithmetic on long numbers. A whole number
# costs less.
_MULTIPLE_STEPS = 4_000

_WHOLE_MULTIPLE_STEPS = 600

_COMPARED_STEPS = 150

_TEXT_PER_STEP = 16

_IN_PLACE = ("not", "if", "then", "else")

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")

_OF_CHILDREN = (
    "items",
    "additionalProperties",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
)

_SIZED = ("required", "dependentRequired", "dependencies")


class TooCostly(ValueError):
    """An error for a schema whose cost cannot be bounded, with the reason as its text and a `remedy`."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(slots=True)
class _Node:
    """One schema: its own steps, the schemas for the same value, and the schemas for the values inside it.

    `factor` multiplies all steps, and `deep` is the number of steps for each value inside, at any depth. `named` holds
    the schemas of single fields and positions, `others` the schemas that may apply to any value inside.
    """

    steps: int
    factor: int = 1
    deep: int = 0
    in_place: list[int] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Reach:
    """A node with all the schemas for the same value.

    Each schema for the values inside is counted as often as it is applied.
    """

    steps: int
    deep: int
    named: dict[str, Counter[int]]
    others: Counter[int]


def profile(
    schema: Schema, pattern_steps: Callable[[str], int] | None, most: int = ENDLESS, format_steps: int = 0
) -> Profile:
    """Return the most steps that one value costs, by its depth in the data.

    `pattern_steps` returns the cost of a pattern for each 16 characters of text, and `format_steps` is the cost of the
    keyword `format`. If `pattern_steps` is None, each keyword is one step however long its check takes, so that the
    steps bound the number of errors. Raises TooCostly if the cost cannot be bounded, or if a single value at the top
    could cost more than `most`.
    """
    graph = _Graph(schema, pattern_steps, format_steps)
    reaches = _reaches(graph.nodes)
    if sum(len(reach.others) + sum(map(len, reach.named.values())) for reach in reaches) > MOST_LINKS:
        raise TooCostly("The schema refers to itself in too many ways.", "Use fewer references and alternatives.")
    if reaches[0].steps > most:
        message = "The schema takes too many steps for a single value: its alternatives and references multiply."
        raise TooCostly(message, "Use fewer nested references, alternatives and unevaluatedProperties.")
    costs = [reach.steps for reach in reaches]
    found = [costs[0]]
    for _ in range(MAX_DEPTH):
        costs = [_below(reach, costs) for reach in reaches]
        found.append(costs[0])
    return tuple(found)


def _below(reach: _Reach, costs: list[int]) -> int:
    every = sum(times * costs[node] for node, times in reach.others.items())
    named = max((sum(times * costs[node] for node, times in one.items()) for one in reach.named.values()), default=0)
    return min(every + named + reach.deep, ENDLESS)


def steps(of_levels: Iterable[int], cost: Profile) -> int:
    """Return the most steps that a document costs, given the amount of data on each level."""
    return sum(much * each for much, each in zip(of_levels, cost, strict=False))


def levels(data: Any) -> list[int]:
    """Return the amount of data on each level, down to `MAX_DEPTH`.

    The amount is the number of values, plus the text of values and field names in pieces of 16 characters.
    """
    found: list[int] = []
    level = [data]
    while level and len(found) <= MAX_DEPTH:
        text = 0
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                text += len(value)
            elif isinstance(value, dict):
                below.extend(value.values())
                text += sum(map(len, value))
            elif isinstance(value, list):
                below.extend(value)
        found.append(len(level) + text // _TEXT_PER_STEP)
        level = below
    return found


class _Graph:
    """The graph of the schemas that can be reached from the root; the first node is the root."""

    def __init__(self, schema: Schema, pattern_steps: Callable[[str], int] | None, format_steps: int) -> None:
        self.nodes: list[_Node] = []
        self._pattern_steps = pattern_steps
        self._format_steps = format_steps
        self._numbers: dict[int, int] = {}
        self._names = _Names(schema)
        waiting: list[Any] = [schema]
        self._number(schema, waiting)
        # Linking a schema may append further schemas to the list.
        for value in waiting:
            if isinstance(value, dict):
                self._link(self.nodes[self._numbers[id(value)]], value, waiting)

    def _number(self, value: Any, waiting: list[Any]) -> int:
        """Return the number of the node for a schema. Create the node at the first call for the schema."""
        if not isinstance(value, dict):
            value = _ANYTHING
        if id(value) not in self._numbers:
            if len(self.nodes) >= MOST_SCHEMAS:
                message = f"The schema consists of more than {MOST_SCHEMAS:,} schemas."
                raise TooCostly(message, "Use a smaller one.")
            self._numbers[id(value)] = len(self.nodes)
            self.nodes.append(_build_node(value, self._pattern_steps, self._format_steps))
            waiting.append(value)
        return self._numbers[id(value)]

    def _link(self, node: _Node, schema: dict[str, Any], waiting: list[Any]) -> None:
        for value in [schema[key] for key in _IN_PLACE if key in schema] + _collect_items(schema, _IN_PLACE_LISTS):
            node.in_place.append(self._number(value, waiting))
        # The validator also applies `dependencies`, a keyword of drafts before 2019-09.
        dependent = [_objects(schema, key).values() for key in ("dependentSchemas", "dependencies")]
        for value in [*chain.from_iterable(dependent), *self._find_references(schema)]:
            node.in_place.append(self._number(value, waiting))
        for name, value in _objects(schema, "properties").items():
            node.named[name] = self._number(value, waiting)
        for index, value in enumerate(_collect_items(schema, ("prefixItems",))):
            node.named[f"[{index}]"] = self._number(value, waiting)
        others = [schema[key] for key in _OF_CHILDREN if key in schema]
        for value in [*others, *_objects(schema, "patternProperties").values()]:
            node.others.append(self._number(value, waiting))

    def _find_references(self, schema: dict[str, Any]) -> Iterator[Any]:
        base = self._names.bases.get(id(schema), "")
        for keyword in ("$ref", "$dynamicRef"):
            ref = schema.get(keyword)
            if isinstance(ref, str):
                yield from self._names.targets(ref, base, dynamic=keyword == "$dynamicRef")


_ANYTHING: dict[str, Any] = {}

_METASCHEMA: dict[str, Any] = {"title": "the schema of schemas"}


def _build_node(schema: dict[str, Any], pattern_steps: Callable[[str], int] | None, format_steps: int) -> _Node:
    if schema is _METASCHEMA:
        return _Node(_META_STEPS, deep=_META_STEPS)
    total = 1 + len(schema) + len(_objects(schema, "properties")) + len(_objects(schema, "dependentSchemas"))
    total += sum(_size(schema[key]) for key in _SIZED if key in schema)
    if pattern_steps:
        total += sum(_comparison(schema[key]) for key in ("enum", "const") if key in schema)
        patterns = [*_objects(schema, "patternProperties"), *(p for p in [schema.get("pattern")] if isinstance(p, str))]
        total += sum(map(pattern_steps, patterns)) + _multiple_steps(schema.get("multipleOf"))
        total += format_steps if "format" in schema else 0
    node = _Node(total, deep=1 if schema.get("uniqueItems") is True else 0)
    if "unevaluatedItems" in schema or "unevaluatedProperties" in schema:
        node.steps += _UNEVALUATED_STEPS
        node.factor = _UNEVALUATED_FACTOR
    return node


def _multiple_steps(of: Any) -> int:
    if of is None:
        return 0
    return _WHOLE_MULTIPLE_STEPS if isinstance(of, int) else _MULTIPLE_STEPS


def _comparison(allowed: Any) -> int:
    """Return the steps for comparing a value with the allowed values.

    Texts are looked up in a table. Other values are compared one after the other, which is slow.
    """
    if isinstance(allowed, str) or (isinstance(allowed, list) and all(isinstance(one, str) for one in allowed)):
        return 2
    return _COMPARED_STEPS * _size(allowed)


def _size(value: Any) -> int:
    """Return the number of values in a JSON value, including the value itself."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        total += 1
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return total


def _objects(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _collect_items(schema: Mapping[str, Any], keys: Iterable[str]) -> list[Any]:
    return [item for key in keys if isinstance(schema.get(key), list) for item in schema[key]]


def _reaches(nodes: list[_Node]) -> list[_Reach]:
    """Return each node together with the nodes that its references and alternatives apply to the same value."""
    done: list[_Reach | None] = [None] * len(nodes)
    open_ones: set[int] = set()
    waiting = list(range(len(nodes)))
    links = 0
    while waiting:
        number = waiting[-1]
        if done[number] is not None:
            waiting.pop()
            continue
        missing = [one for one in nodes[number].in_place if done[one] is None]
        if missing:
            if number in open_ones and not open_ones.isdisjoint(missing):
                raise TooCostly(
                    "The schema refers to itself without going into the data.",
                    "Put the reference under properties or items.",
                )
            open_ones.add(number)
            waiting.extend(missing)
            continue
        waiting.pop()
        open_ones.discard(number)
        reach = _combine(nodes[number], [one for other in nodes[number].in_place if (one := done[other])])
        links += len(reach.others) + len(reach.named)
        if links > MOST_LINKS:
            raise TooCostly("The schema refers to itself in too many ways.", "Use fewer references and alternatives.")
        done[number] = reach
    return [one for one in done if one]


def _combine(node: _Node, parts: list[_Reach]) -> _Reach:
    reach = _Reach(node.steps, node.deep, {name: Counter((number,)) for name, number in node.named.items()}, Counter())
    reach.others.update(node.others)
    for part in parts:
        reach.steps += part.steps
        reach.deep += part.deep
        reach.others.update(part.others)
        for name, numbers in part.named.items():
            reach.named.setdefault(name, Counter()).update(numbers)
    reach.steps = min(reach.steps * node.factor, ENDLESS)
    reach.deep = min(reach.deep * node.factor, ENDLESS)
    for numbers in (reach.others, *reach.named.values()):
        for number in numbers:
            numbers[number] = min(numbers[number] * node.factor, ENDLESS)
    return reach


class _Names:
    """The targets of references. A name that several schemas have refers to all of them.

    Raise TooCostly for a schema of another draft inside the root, because other drafts have keywords whose cost is not
    known.
    """

    def __init__(self, root: Schema) -> None:
        self.bases: dict[int, str] = {}
        self._resources: dict[str, list[Any]] = {"": [root]}
        self._anchors: dict[str, list[Any]] = {}
        self._dynamic: dict[str, list[Any]] = {}
        waiting: list[tuple[Any, str]] = [(root, "")]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, dict):
                if value is not root and isinstance(named := value.get("$schema"), str) and named.rstrip("#") != DRAFT:
                    message = f"A part of the schema is written for another draft, {named[:100]!r}."
                    raise TooCostly(message, f'Write the whole schema for draft 2020-12, "{DRAFT}".')
                base = self._register(value, base)
                waiting.extend((one, base) for one in value.values())
            elif isinstance(value, list):
                waiting.extend((one, base) for one in value)

    def _register(self, value: dict[str, Any], base: str) -> str:
        given = value.get("$id")
        if isinstance(given, str):
            base = urldefrag(_join(base, given)).url
            self._resources.setdefault(base, []).append(value)
        self.bases[id(value)] = base
        plain, dynamic = ("$anchor", "$dynamicAnchor"), ("$dynamicAnchor",)
        for table, keys in ((self._anchors, plain), (self._dynamic, dynamic)):
            for name in (value.get(key) for key in keys):
                if isinstance(name, str):
                    table.setdefault(name, []).append(value)
        return base

    def targets(self, ref: str, base: str, *, dynamic: bool) -> list[Any]:
        """Return the schemas that a reference may mean; raise TooCostly if none is inside the document."""
        url, fragment = urldefrag(_join(base, ref))
        fragment = unquote(fragment)
        found: list[Any]
        if url.startswith(_META) or (base.startswith(_META) and not ref.startswith("#")):
            found = [_METASCHEMA]
        elif fragment and not fragment.startswith("/"):
            found = self._anchors.get(fragment, [])
        else:
            found = [one for root in self._resources.get(url, []) for one in _resolve_pointer(root, fragment)]
        if dynamic:
            found = [*found, *(one for one in self._dynamic.get(fragment, []) if all(one is not f for f in found))]
        if not found:
            message = "The schema refers to a target outside the document."
            raise TooCostly(message, "Put the target into $defs, and refer to it there.")
        return found


def _join(base: str, ref: str) -> str:
    if ref.startswith("#"):
        return base + ref
    try:
        return urljoin(base, ref)
    except ValueError:
        return ref


def _resolve_pointer(root: Any, pointer: str) -> Iterator[Any]:
    value = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return
    yield value
