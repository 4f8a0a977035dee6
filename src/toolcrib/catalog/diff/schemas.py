"""What changed between two schemas of a tool, place by place, and whether those who use it have to follow.

Arguments must still be taken: what was right stays right. Results must still be understood: nothing comes
that could not come before. `compare_subset` says which of it holds; here it is put into words, with the
place. What holds for a place as a whole limits what is said of its parts. Knows schemas; refuses to know
tools.

One difference between two definitions, and its grade.

Everything that compares speaks in differences; `compare` makes changes of tools out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolcrib.catalog.diff.renames import find_renamed_parameters
from toolcrib.catalog.diff.subset import Branch, Comparer, UnclearError, branches, kind_of, places_in
from toolcrib.validation import codec

Grade = Literal["cosmetic", "compatible", "breaking", "suspicious"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changed. `template` is ours, `names` are another's: they go where it says {0}, {1}.

    `is_fixed`: so by convention, whatever the place as a whole comes to.
    """

    code: str
    grade: Grade
    pointer: str
    template: str
    names: tuple[str, ...] = ()
    old: Any = None
    new: Any = None
    is_fixed: bool = False


Use = Literal["input", "output"]

_DEEPEST = 40
_BOUNDS = {
    "minimum": "the least value",
    "exclusiveMinimum": "the value to be exceeded",
    "minLength": "the least length",
    "minItems": "the least number of items",
    "minProperties": "the least number of names",
    "maximum": "the greatest value",
    "exclusiveMaximum": "the value not to be reached",
    "maxLength": "the greatest length",
    "maxItems": "the greatest number of items",
    "maxProperties": "the greatest number of names",
}
_WORDS = {
    "pattern": "the pattern",
    "format": "the format",
    "multipleOf": "the step",
    "contentEncoding": "the encoding",
    "contentMediaType": "the media type",
    "uniqueItems": "whether items may repeat",
}
_ABSENT = object()
_ABOVE = "said-above"
"""Stands for what was said of the record that this one is within, and of the same kind."""


def compare_schemas(old: Any, new: Any, use: Use, pointer: str) -> list[Difference]:
    """Everything that changed, but for words. `pointer` says where the schema stands in the definition."""
    if use == "input":
        old, new = _declared(old), _declared(new)
    found = _Walk(Comparer(old, new), use).walk(old, new, _Place(pointer, ""))
    return [item for item in found if item.code != _ABOVE]


def _declared(schema: Any) -> Any:
    """Arguments are declared one by one; a tool that declares none takes none."""
    is_bare = isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema
    return {**schema, "properties": {}} if is_bare else schema


@dataclass(frozen=True, slots=True)
class _Place:
    pointer: str
    label: str

    def below(self, name: str, *steps: str) -> _Place:
        parts = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in (*steps, name))
        return _Place(self.pointer + parts, f"{self.label}.{name}" if self.label else name)

    def item(self, *steps: str, mark: str = "[]") -> _Place:
        return _Place("/".join((self.pointer, *steps)), self.label + mark)


class _Walk:
    def __init__(self, comparer: Comparer, use: Use) -> None:
        self.comparer = comparer
        self.is_input = use == "input"
        self.open: set[tuple[bytes, bytes]] = set()
        self.done: dict[tuple[bytes, bytes], str] = {}

    def walk(self, old: Any, new: Any, place: _Place) -> list[Difference]:
        """What changed at a place and below it."""
        key = codec.canonical(old), codec.canonical(new)
        is_shared = b'"$ref"' in key[0] + key[1]
        if (key[0] == key[1] and not is_shared) or key in self.open or len(self.open) > _DEEPEST:
            return []
        forward, backward = self.comparer.relate(old, new)
        is_good, is_equal = (forward if self.is_input else backward), forward and backward
        if is_shared and key in self.done and place.label:
            first = self.done[key]
            if is_equal:
                return []
            return [self._say("changed-alike", place, "{} changed as {1} did", not is_good, first)]
        self.open.add(key)
        try:
            found = list(self._look(old, new, place))
        finally:
            self.open.discard(key)
        if found:
            self.done[key] = place.label
        return self._settle(found, old, new, place, is_good, is_equal)

    def _settle(
        self, found: list[Difference], old: Any, new: Any, place: _Place, is_good: bool, is_equal: bool
    ) -> list[Difference]:
        """What was found in detail, brought in line with what is certain of the whole."""
        if is_equal:
            return [item for item in found if item.is_fixed]
        if is_good:
            found = [item if item.is_fixed else replace(item, grade="compatible") for item in found]
            if not found:
                words = "{} now takes more than before" if self.is_input else "{} now says less than before"
                found = [self._say("changed", place, words, False, old=old, new=new)]
        elif not any(item.grade == "breaking" for item in found):
            words = "{} changed in a way that cannot be compared: expect it to break callers"
            found.append(self._say("incomparable", place, words, True, old=old, new=new))
        return found

    def _look(self, old: Any, new: Any, place: _Place) -> Iterator[Difference]:
        try:
            first = branches(old, self.comparer.old, exact=False)
            second = branches(new, self.comparer.new, exact=False)
        except (UnclearError, TypeError, ValueError, AttributeError, RecursionError):
            return
        yield from self._compare_kinds(first, second, place)
        yield from self._compare_values(first, second, place)
        for kind in ("string", "integer", "number", "array", "object"):
            left, right = _unequal(first, second, kind)
            if len(left) == 1 and len(right) == 1:
                yield from self._compare_once(kind, left[0].facts, right[0].facts, place)

    # --- kinds and values ---

    def _compare_kinds(
        self, first: list[Branch], second: list[Branch], place: _Place
    ) -> Iterator[Difference]:
        old, new = _kinds(first), _kinds(second)
        gone = [kind for kind in old if kind not in new and not (kind == "integer" and "number" in new)]
        come = [kind for kind in new if kind not in old and not (kind == "integer" and "number" in old)]
        if old and new and not set(old) & set(new):
            words = "{} was " + " or ".join(old) + " and is now " + " or ".join(new)
            is_bad = bool(gone if self.is_input else come)
            yield self._say("type-changed", place, words, is_bad, old=old, new=new)
            return
        for kinds, is_gone in ((gone, True), (come, False)):
            if not kinds:
                continue
            listed = " or ".join(kinds)
            if self.is_input:
                words = "{} no longer takes " + listed if is_gone else "{} now also takes " + listed
            else:
                words = "{} is never " + listed + " any more" if is_gone else "{} may now be " + listed
            code = "type-narrowed" if is_gone else "type-widened"
            yield self._say(code, place, words, is_gone is self.is_input, old=old, new=new)

    def _compare_values(
        self, first: list[Branch], second: list[Branch], place: _Place
    ) -> Iterator[Difference]:
        old, new = _choices(first), _choices(second)
        free_before, free_now = _free(first), _free(second)
        gone = [value for value in old if not _holds(new, value) and kind_of(value) not in free_now]
        come = [value for value in new if not _holds(old, value) and kind_of(value) not in free_before]
        verb = "takes" if self.is_input else "can be"
        for values, is_gone in ((gone, True), (come, False)):
            if not values or not (old and new):
                continue
            words = f"{{}} no longer {verb} {{1}}" if is_gone else f"{{}} now also {verb} {{1}}"
            code = "value-removed" if is_gone else "value-added"
            yield self._say(code, place, words, is_gone is self.is_input, _listed(values), old=old, new=new)
        if new and not old and {kind_of(value) for value in new} & free_before:
            words = f"{{}} now {verb} only {{1}}"
            yield self._say("value-removed", place, words, self.is_input, _listed(new), old=None, new=new)
        elif old and not new and {kind_of(value) for value in old} & free_now:
            words = f"{{}} now {verb} more than {{1}}"
            yield self._say("value-added", place, words, not self.is_input, _listed(old), old=old, new=None)

    # --- facts ---

    def _compare_once(
        self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any], place: _Place
    ) -> Iterator[Difference]:
        key = codec.canonical([kind, old]), codec.canonical(new)
        if key in self.open:
            yield self._say(_ABOVE, place, "", True)
            return
        self.open.add(key)
        try:
            yield from self._compare_facts(kind, old, new, place)
        finally:
            self.open.discard(key)

    def _compare_facts(
        self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any], place: _Place
    ) -> Iterator[Difference]:
        for key, noun in {**_BOUNDS, **_WORDS}.items():
            before, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if before == now or (key == "uniqueItems" and not (before is True or now is True)):
                continue
            is_bad = _is_narrowed(key, before, now) if self.is_input else _is_narrowed(key, now, before)
            names: tuple[str, ...]
            if before is _ABSENT:
                words, names = f"{noun} of {{}} is now {{1}}", (_show(now),)
            elif now is _ABSENT:
                words, names = f"{noun} of {{}}, {{1}}, is gone", (_show(before),)
            else:
                words, names = f"{noun} of {{}} was {{1}} and is now {{2}}", (_show(before), _show(now))
            code = "bound-changed" if key in _BOUNDS else f"{key}-changed"
            at = replace(place, pointer=f"{place.pointer}/{key}")
            yield self._say(code, at, words, is_bad, *names, old=_or_none(before), new=_or_none(now))
        if kind == "array":
            yield from self._compare_items(old, new, place)
        elif kind == "object":
            yield from self._compare_names(old, new, place)

    def _compare_items(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: _Place
    ) -> Iterator[Difference]:
        try:
            (first, rest), (second, beyond) = places_in(old), places_in(new)
        except UnclearError:
            return
        for index in range(max(len(first), len(second))):
            before = first[index] if index < len(first) else rest
            now = second[index] if index < len(second) else beyond
            yield from self.walk(before, now, place.item("prefixItems", str(index), mark=f"[{index}]"))
        yield from self.walk(rest, beyond, place.item("items"))

    def _compare_names(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: _Place
    ) -> Iterator[Difference]:
        before, now = _mapped(old.get("properties")), _mapped(new.get("properties"))
        needed, asked = _texts(old.get("required")), _texts(new.get("required"))
        gone = [name for name in before if name not in now]
        come = [name for name in now if name not in before]
        for name, heir in find_renamed_parameters(before, now, gone, come):
            gone.remove(name)
            come.remove(heir)
            at = place.below(heir, "properties")
            words = "{} is now called {1}: " + self._whoever("use the old name", "read the old name")
            subject = place.below(name)
            item = self._say("renamed", replace(at, label=subject.label), words, True, heir, fixed=True)
            yield replace(item, old=name, new=heir)
        for name in gone:
            at = place.below(name, "properties")
            words = "{} is gone: " + self._whoever("still send it", "use it")
            yield self._say("removed", at, words, True, old=before[name], fixed=True)
        for name in come:
            yield self._new_name(now[name], name in asked, place.below(name, "properties"))
        both = [name for name in before if name in now]
        for name in sorted(both, key=lambda name: _refers(before[name])):
            at = place.below(name, "properties")
            if (name in needed) is not (name in asked):
                yield self._need(name in asked, at)
            yield from self.walk(before[name], now[name], at)
        yield from self._compare_rest(old, new, place)

    def _new_name(self, node: Any, is_required: bool, place: _Place) -> Difference:
        if not self.is_input:
            return self._say("added", place, "{} is new", False, new=node, fixed=True)
        if is_required:
            words = "{} is new and required: callers that do not know it will fail"
            return self._say("added-required", place, words, True, new=node, fixed=True)
        return self._say("added", place, "{} is new and may be left out", False, new=node, fixed=True)

    def _need(self, is_required: bool, place: _Place) -> Difference:
        """A name that must be there, or need not be there any more."""
        if self.is_input:
            words = "{} may now be left out"
            if is_required:
                words = "{} is now required: callers that leave it out will fail"
        else:
            words = "{} may now be missing: readers that rely on it will fail"
            if is_required:
                words = "{} is now always there"
        code = "now-required" if is_required else "now-optional"
        return self._say(code, place, words, is_required is self.is_input, fixed=True)

    def _compare_rest(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: _Place
    ) -> Iterator[Difference]:
        """What holds for names that are not declared."""
        before = old.get("additionalProperties", True)
        now = new.get("additionalProperties", True)
        at = place.item("additionalProperties", mark=".*" if place.label else "*")
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from self.walk(before, now, at)
        elif (before is False) is not (now is False):
            at = replace(at, label=place.label)
            words = "{} no longer takes names that are not declared"
            if now is not False:
                words = "{} now takes names that are not declared"
            is_bad = (now is False) is self.is_input
            yield self._say("names-closed" if now is False else "names-opened", at, words, is_bad)

    # --- words ---

    def _whoever(self, callers: str, readers: str) -> str:
        return f"callers that {callers} will fail" if self.is_input else f"readers that {readers} will fail"

    def _say(
        self,
        code: str,
        place: _Place,
        words: str,
        is_bad: bool,
        *names: str,
        old: Any = None,
        new: Any = None,
        fixed: bool = False,
    ) -> Difference:
        """A difference; `{}` in the words is what it is about."""
        about = "{0}" if place.label else "what it takes"
        if not self.is_input:
            about = "{0} of the result" if place.label else "the result"
        template = words.replace("{}", about, 1)
        grade: Grade = "breaking" if is_bad else "compatible"
        return Difference(code, grade, place.pointer, template, (place.label, *names), old, new, fixed)


# --- questions -------------------------------------------------------------------------------------------


def _kinds(found: Iterable[Branch]) -> list[str]:
    kinds: set[str] = set()
    for branch in found:
        kinds |= {branch.kind} if branch.values is None else {kind_of(value) for value in branch.values}
    return sorted(kinds - {"integer"} if "number" in kinds else kinds)


def _choices(found: Iterable[Branch]) -> list[Any]:
    """The values that are listed, but for null and for both booleans."""
    listed = [value for branch in found for value in branch.values or ()]
    has_both = {True, False} <= {value for value in listed if isinstance(value, bool)}
    return [v for v in listed if v is not None and not (has_both and isinstance(v, bool))]


def _free(found: Iterable[Branch]) -> set[str]:
    kinds = {branch.kind for branch in found if branch.values is None}
    return kinds | {"integer"} if "number" in kinds else kinds


def _holds(values: list[Any], value: Any) -> bool:
    return any(kind_of(other) == kind_of(value) and other == value for other in values)


def _unequal(first: list[Branch], second: list[Branch], kind: str) -> tuple[list[Branch], list[Branch]]:
    """The branches of a kind that are not on both sides alike."""

    def spell(branch: Branch) -> bytes:
        return codec.canonical([branch.facts, branch.opaque])

    left = [branch for branch in first if branch.kind == kind]
    right = [branch for branch in second if branch.kind == kind]
    if len(left) == 1 and len(right) == 1:
        return left, right
    both = {spell(branch) for branch in left} & {spell(branch) for branch in right}
    return [b for b in left if spell(b) not in both], [b for b in right if spell(b) not in both]


def _is_narrowed(key: str, before: Any, now: Any) -> bool:
    """Whether a fact now lets less through than before, or something else."""
    if now is _ABSENT or (key == "uniqueItems" and now is not True):
        return False
    if before is _ABSENT or key not in _BOUNDS:
        return True
    try:
        return bool(now < before) if key.startswith(("max", "exclusiveMax")) else bool(now > before)
    except TypeError:
        return True


def _refers(node: Any) -> bool:
    return b'"$ref"' in codec.canonical(node)


def _mapped(node: Any) -> Mapping[str, Any]:
    return node if isinstance(node, Mapping) else {}


def _texts(node: Any) -> set[str]:
    return {item for item in node if isinstance(item, str)} if isinstance(node, list | tuple) else set()


def _or_none(value: Any) -> Any:
    return None if value is _ABSENT else value


def _show(value: Any) -> str:
    return value if isinstance(value, str) else codec.canonical(value).decode()


def _listed(values: list[Any], most: int = 5) -> str:
    shown = ", ".join(codec.canonical(value).decode() for value in values[:most])
    return f"{shown} and {len(values) - most} more" if len(values) > most else shown
