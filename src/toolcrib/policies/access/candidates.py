"""Values worth trying in one place: one of every kind that the demands on it, and its schema, can tell apart.

Between two numbers that somebody mentions, every number is as good as every other; a text is known by how it
begins, how it ends and how long it is. Where that is not so (patterns, formats, several globs at once) the
values are a try and no proof, and `is_exact` says so. Knows demands and schemas; refuses to know rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from toolcrib.errors import DefinitionError
from toolcrib.policies.access.containment import Folder
from toolcrib.policies.access.operators import ABSENT, Demand, is_number
from toolcrib.policies.access.reach import Reach, forms_of
from toolcrib.validation import Validator

MAX_CANDIDATES = 500
_MAX_TEXT = 4_096
_FRESH = "zqxjkvwyZQXJKVWY0189~\u00f8\u4e2d"
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SPECIAL = re.compile(r"\[!?\]?[^\]]*\]|[*?]")
_BLURS = frozenset({"pattern", "format", "not", "if", "allOf", "contentEncoding", "contentMediaType"})
"""Keywords that may refuse every value made up here, and let through others."""
_ODD_LISTS = frozenset({"prefixItems", "contains", "enum", "const"})


class _Way:
    """A way to leave an argument out, besides leaving out what it is in."""


LEFT_OUT: Final = _Way()
"""What it is in is there, and it is not."""
NO_ITEMS: Final = _Way()
"""The list that it is in the items of has none."""


@dataclass(slots=True)
class Candidates:
    """Values to try. Where they are `is_exact`, what none of them does, no value does."""

    values: list[Any] = field(default_factory=list)
    is_exact: bool = True


def candidates_for(reach: Reach, demands: Sequence[Demand]) -> Candidates:
    """What to try at the end of a path, to leave it out included where that may be."""
    made = Candidates(list(_ways_to_leave_out(reach)), all(step.is_whole for step in reach.steps))
    schemas = reach.steps[-1].schemas
    if not schemas:
        _add(made, _values({}, demands, made), None)
    for schema in schemas:
        _add_schema(made, schema, reach.root, demands)
    return made


def _ways_to_leave_out(reach: Reach) -> Iterator[Any]:
    *parents, last = reach.steps
    if not all(step.is_required for step in parents or (last,)):
        yield ABSENT
    if parents and not last.is_required:
        yield LEFT_OUT
    for step, following in zip(reach.steps, reach.steps[1:], strict=False):
        forms = [form for schema in step.schemas for form in forms_of(schema, reach.root)]
        if following.lists and not any(form.get("minItems") for form in forms):
            yield NO_ITEMS
            return


def _add_schema(made: Candidates, schema: Any, root: Mapping[str, Any], demands: Sequence[Demand]) -> None:
    forms = forms_of(schema, root)
    schema = schema if isinstance(schema, Mapping) else {}
    if any(_BLURS & form.keys() for form in (schema, *forms)):
        made.is_exact = False
    kinds = [_kinds(form) for form in forms]
    scalars = [form for form, kind in zip(forms, kinds, strict=True) if kind - {"array", "object"}]
    if any("object" in kind for kind in kinds):
        made.values.append({})  # what is in it, other paths say
    for form, kind in zip(forms, kinds, strict=True):
        if "array" in kind:
            _add_lists(made, form, root, demands)
    if scalars:
        validator = _validator(schema, root)
        values = (value for form in scalars for value in _values(form, demands, made))
        if not _add(made, values, validator) or validator is None:
            made.is_exact = False  # it takes what is not thought of here


def _kinds(form: Mapping[str, Any]) -> frozenset[str]:
    kind = form.get("type", "any")
    return frozenset([kind] if isinstance(kind, str) else kind)


def _add_lists(
    made: Candidates, form: Mapping[str, Any], root: Mapping[str, Any], demands: Sequence[Demand]
) -> None:
    """Lists of one item, or of as many equal ones as there must be: no other says more."""
    least, most = form.get("minItems", 0), form.get("maxItems", math.inf)
    if not least:
        made.values.append([])
    if not most:
        return
    if form.keys() & _ODD_LISTS or (least > 1 and form.get("uniqueItems")):
        made.is_exact = False
    items = Candidates()
    _add_schema(items, form.get("items", {}), root, demands)
    made.is_exact &= items.is_exact
    made.values += [[value] * max(1, min(least, MAX_CANDIDATES)) for value in items.values]


def _validator(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Validator | None:
    shared = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    try:
        return Validator({**shared, **schema}, trusted=True)  # the whole was checked when the tool was built
    except DefinitionError:
        return None


def _add(made: Candidates, values: Iterable[Any], validator: Validator | None) -> bool:
    """Add those that are new and valid; returns whether any is valid."""
    known = {_key(value) for value in made.values}
    is_any_valid = False
    for number, value in enumerate(values):
        if number == MAX_CANDIDATES:
            made.is_exact = False
            break
        if validator is None or _is_valid(validator, value):
            is_any_valid = True
            if (key := _key(value)) not in known:
                known.add(key)
                made.values.append(value)
    return is_any_valid


def _is_valid(validator: Validator, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except ValueError:
        return False  # the engine meets something that is not JSON


def _key(value: Any) -> Any:
    """1 and 1.0 are one value, 1 and true are two."""
    return repr(value) if isinstance(value, list | dict) else (isinstance(value, bool), value)


# --- values --------------------------------------------------------------------------------------------


def _values(form: Mapping[str, Any], demands: Sequence[Demand], made: Candidates) -> Iterator[Any]:
    """Plain values that the demands tell apart, within a form or around it."""
    finite = [*form.get("enum", ()), *([form["const"]] if "const" in form else ())]
    if finite:
        yield from finite
        return
    operators = [operator for demand in demands for operator in demand.walk()]
    constants = [
        item for operator in operators if operator.name in ("equals", "one_of") for item in operator.constants
    ]
    yield from constants
    numbers = [
        *(item for operator in operators for item in operator.constants if is_number(item)),
        *(form[key] for key in _BOUNDS if is_number(form.get(key))),
    ]
    yield from _numbers(numbers, form.get("multipleOf"), made)
    texts: dict[str, list[str]] = {}
    for operator in operators:
        for item in operator.constants:
            if isinstance(item, str):
                texts.setdefault(operator.name, []).append(item)
    lengths = [item for operator in operators if operator.name == "max_length" for item in operator.constants]
    if isinstance(form.get("minLength"), int):
        lengths.append(form["minLength"])  # the longest is not tried: nobody asks for more than some length
    yield from _texts(texts, lengths, made)
    yield from (True, False, None)


def _numbers(mentioned: Sequence[Any], multiple: Any, made: Candidates) -> Iterator[Any]:
    """Every number that is mentioned, the nearest whole ones around it, and one from every gap."""
    points = sorted({0, *mentioned})
    for point in points:
        yield point
        yield math.floor(point) + 1
        yield math.ceil(point) - 1
        if is_number(multiple) and multiple > 0:
            made.is_exact &= isinstance(multiple, int)
            yield from _multiples(point, multiple, made)
    for low, high in pairwise(points):
        try:
            yield low + (high - low) / 2
        except OverflowError:
            made.is_exact = False  # numbers of hundreds of digits


def _multiples(point: Any, multiple: Any, made: Candidates) -> Iterator[Any]:
    try:
        below = int(point // multiple)
    except OverflowError:
        made.is_exact = False
        return
    yield (below - 1) * multiple
    yield (below + 1) * multiple


def _texts(texts: Mapping[str, Sequence[str]], lengths: Sequence[int], made: Candidates) -> Iterator[str]:
    shapes = texts.keys() & {"prefix", "suffix", "glob", "below_path"}
    globs = texts.get("glob", ())
    if "matches" in texts or (len(shapes) > 1 and shapes != {"prefix", "suffix"}) or len(globs) > 1:
        made.is_exact = False  # no value made here may fit all of them, and another one might
    is_stretched = bool(lengths) and any(glob.count("*") > 1 for glob in globs)
    if is_stretched or any("[" in glob for glob in globs) or any(item > _MAX_TEXT for item in lengths):
        made.is_exact = False
    used = {letter for items in texts.values() for text in items for letter in text}
    fresh = next((letter for letter in _FRESH if letter not in used), None)
    if fresh is None:
        fresh = next(chr(code) for code in range(0x4E00, 0x9FFF) if chr(code) not in used)
    wanted = sorted({length + more for length in lengths if length <= _MAX_TEXT for more in (0, 1)})
    starts = ["", *texts.get("prefix", ())]
    ends = ["", *texts.get("suffix", ())]
    for start in starts:
        for end in ends:
            yield from _between(start, end, fresh, wanted)
    for glob in globs:
        yield from (_sample(glob, filling) for filling in ("", fresh))
        yield from (_sample(glob, fresh * (length - len(glob) + 1)) for length in wanted)
    for path in texts.get("below_path", ()):
        folder = Folder(path).text
        yield f"/{fresh}"  # outside of it, and as certain to be so as it is absolute
        yield from ("/" + fresh * (length - 1) for length in wanted)
        yield folder
        yield f"{folder.rstrip('/')}/"
        for end in (fresh, *ends[1:]):
            below = f"{folder.rstrip('/')}/{end}"
            yield below
            yield from (below + fresh * (length - len(below)) for length in wanted)
    yield from texts.get("matches", ())


def _between(start: str, end: str, fresh: str, wanted: Sequence[int]) -> Iterator[str]:
    """Texts with this start and this end: with something in between, with nothing, and overlapping."""
    yield f"{start}{fresh}{end}"
    for common in range(len(end) + 1):
        if start.endswith(end[:common]):
            yield start + end[common:]
    for length in wanted:
        yield f"{start}{fresh * (length - len(start) - len(end))}{end}"


def _sample(glob: str, filling: str) -> str:
    """A text that a glob fits: its stars filled, one letter for everything that stands for one."""
    letter = filling[:1] or "z"

    def replace(found: re.Match[str]) -> str:
        piece = found.group()
        if piece == "*":
            return filling
        return letter if piece == "?" or piece[1] == "!" else piece[1]

    return _SPECIAL.sub(replace, glob)
