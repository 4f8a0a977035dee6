"""Whether some arguments pass: a search for one witness among values that rules can tell apart.

A tool whose rules no argument passes is as good as denied, and must not be shown. Every value to try is first
reduced to which conditions it meets, so that what is searched is small. Where none is found, there may be one
all the same, unless it is proved that there is none. Values are judged as they come, and nothing of the tool
runs: what is refused as it comes is refused whatever the tool makes of it, so that what is proved stays true.
Knows cases; refuses to know who calls.

Values worth trying in one place: one of every kind that the demands on it, and its schema, can tell apart.

Between two numbers that somebody mentions, every number is as good as every other; a text is known by how it
begins, how it ends and how long it is. Where that is not so (patterns, formats, several globs at once) the
values are a try and no proof, and `is_exact` says so. Knows demands and schemas; refuses to know rules.

Arguments made to order: for each path, what it is to lead to.

Knows steps and values; refuses to know why somebody wants them.

The conditions of a case, counted as bits: which are met decides everything, and not by which values.

Knows cases; refuses to know values.

Whether it is certain that no arguments pass.

Which conditions one value can meet together is known for some kinds of them: for those that compare plainly,
for folders, for one glob beside plain values. Of every such group it is demanded that some value meets what
is met in it; of all else the best is hoped. So one rule more can only make it more certain, and what is not
certain is not said. Knows conditions and groups of them; refuses to look for the arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, product
from typing import Any, Final

from toolcrib.errors import DefinitionError
from toolcrib.policy.access.conditions import ABSENT, Demand, Folder, Reach, Step, forms_of, is_number
from toolcrib.policy.access.decision import Case, Clause, Condition
from toolcrib.validation.validator import Validator

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


def build(chosen: Iterable[tuple[Reach, Any]]) -> dict[str, Any]:
    """Arguments in which each path leads to what was chosen for it."""
    arguments: dict[str, Any] = {}
    for reach, value in chosen:
        place(arguments, reach.steps, value)
    return arguments


def place(arguments: dict[str, Any], steps: Sequence[Step], value: Any) -> None:
    """Put a value where steps lead to, and make what it is in; or leave it out in the way that is asked."""
    inside = arguments
    for step, following in pairwise(steps):
        if value is ABSENT and not step.is_required:
            return
        if value is NO_ITEMS and following.lists:
            inside.setdefault(step.name, [])
            return
        inner = inside.get(step.name)
        for _ in range(following.lists):
            inner = inner[0] if isinstance(inner, list) and inner else None
        if not isinstance(inner, dict):
            inner = {}
            inside[step.name] = _wrap(inner, following.lists)
        inside = inner
    name = steps[-1].name
    is_there_already = value == {} and isinstance(inside.get(name), dict)
    if value is not ABSENT and value is not LEFT_OUT and not is_there_already:
        inside[name] = value


def _wrap(value: Any, lists: int) -> Any:
    for _ in range(lists):
        value = [value]
    return value


@dataclass(frozen=True, slots=True)
class Item:
    """One condition and its bit. What denies is met by less than what allows."""

    condition: Condition
    bit: int
    denies: bool

    def is_met(self, arguments: Mapping[str, Any]) -> bool:
        verdict = self.condition.holds(arguments)
        return verdict is not False if self.denies else verdict is True


class Tally:
    """Every condition that denies or allows, by the path it looks at."""

    __slots__ = ("_allowing", "_denying", "_needs_allowing", "by_path")

    def __init__(self, case: Case) -> None:
        self.by_path: dict[str, list[Item]] = {}
        self._needs_allowing = case.needs_allowing
        bit = 1
        masks: list[tuple[Clause, int]] = []
        for number, clause in enumerate((*case.denies, *case.allows)):
            mask = 0
            for condition in clause.conditions:
                item = Item(condition, bit, number < len(case.denies))
                self.by_path.setdefault(condition.reach.path, []).append(item)
                mask |= bit
                bit <<= 1
            masks.append((clause, mask))
        self._denying = masks[: len(case.denies)]
        self._allowing = masks[len(case.denies) :]

    def find_denial(self, meets: int) -> Clause | None:
        """The first rule that denies what meets these conditions."""
        return next((clause for clause, mask in self._denying if meets & mask == mask), None)

    def allows(self, meets: int) -> bool:
        """Whether what meets these conditions is allowed, unless it is denied."""
        return not self._needs_allowing or any(meets & mask == mask for _, mask in self._allowing)


MAX_TRIES = 5_000
_ENDS = frozenset({"prefix", "suffix"})
_BLURRED = frozenset({"glob", "matches", "below_path"})


def can_pass(tally: Tally) -> bool:
    """False only where it is certain that nothing does."""
    ways = [list(_meetable(items)) for items in tally.by_path.values()]
    for tries, chosen in enumerate(product(*ways)):
        meets = sum(chosen)
        if tries >= MAX_TRIES or (tally.find_denial(meets) is None and tally.allows(meets)):
            return True
    return False


def _meetable(items: Sequence[Item]) -> set[int]:
    """The sets of conditions on one path that a value may meet."""
    met, known = {0}, 0
    for group in _groups(items):
        found = _met_in(group)
        if found is None or len(found) * len(met) > MAX_TRIES:
            continue
        mask = sum(item.bit for item in group)
        shared = known & mask
        met = {one | other for one in met for other in found if one & shared == other & shared}
        known |= mask
    hoped = sum(item.bit for item in items if not item.denies and not item.bit & known)
    return {one | hoped for one in met}


def _groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Conditions that can be judged together. To which groups one belongs, no other has a say in."""
    used = {item.bit: {operator.name for operator in item.condition.demand.walk()} for item in items}
    plain = [item for item in items if not used[item.bit] & _BLURRED]
    points = [item for item in plain if not used[item.bit] & _ENDS]
    folders = [item for item in items if used[item.bit] & (_BLURRED | _ENDS) == {"below_path"}]
    yield plain
    yield [*points, *folders]
    yield from ([*points, item] for item in items if item not in plain and item not in folders)


def _met_in(group: Sequence[Item]) -> set[int] | None:
    """Which of some conditions are met together, by whatever value; None where that is not known."""
    if not group:
        return None
    reach = group[0].condition.reach
    made = candidates_for(reach, [item.condition.demand for item in group])
    if not made.is_exact:
        return None
    every = (build([(reach, value)]) for value in made.values)
    return {sum(item.bit for item in group if item.is_met(arguments)) for arguments in every}


@dataclass(frozen=True, slots=True)
class Search:
    """How a search ended. `may_pass` is False only where it is certain that nothing does. Then `denial` is
    the first rule that denied something, None where all that was missing is a rule that allows."""

    may_pass: bool
    witness: Mapping[str, Any] | None = None
    denial: Clause | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """A value at the end of a path, and the conditions it meets, one bit for each."""

    reach: Reach
    value: Any
    meets: int


def find_witness(case: Case) -> Search:
    """Arguments that pass, as far as conditions look at them: what else the tool wants is not in them."""
    tally = Tally(case)
    choices = [list(_choices(items)) for items in tally.by_path.values()]
    denial: Clause | None = None
    for chosen in islice(product(*choices), MAX_TRIES):
        meets = sum(choice.meets for choice in chosen)
        denied_by = tally.find_denial(meets)
        if denied_by is not None:
            denial = denial or denied_by
        elif tally.allows(meets):
            arguments = build((choice.reach, choice.value) for choice in chosen)
            if case.judge(arguments).is_allowed:  # which it is, unless two paths are in each other's way
                return Search(True, arguments)
    return Search(can_pass(tally), None, denial)


def _choices(items: Sequence[Item]) -> Iterator[_Choice]:
    """What to try on one path: one value for every set of conditions that can be met."""
    reach = items[0].condition.reach
    known: set[int] = set()
    for value in candidates_for(reach, [item.condition.demand for item in items]).values:
        arguments = build([(reach, value)])
        meets = sum(item.bit for item in items if item.is_met(arguments))
        if meets not in known:
            known.add(meets)
            yield _Choice(reach, value, meets)


def can_hold(condition: Condition, *, permits: bool) -> bool:
    """Whether some value surely meets one condition; in doubt, yes. A rule that allows needs one that does so
    as it came, any other rule may mean what is made of it."""
    made = candidates_for(condition.reach, [condition.demand])
    for value in made.values:
        arguments = build([(condition.reach, value)])
        if permits:
            is_met = condition.holds(arguments) is True
        else:  # what cannot be compared is denied in a call, but is no reason to write such a rule
            found = condition.reach.find(arguments)
            is_met = any(condition.demand.holds(item, is_given) is True for item, is_given in found)
        if is_met:
            return True
    return not made.is_exact or (condition.reach.is_coded and not permits)
