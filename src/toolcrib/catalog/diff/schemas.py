"""Compare two JSON Schemas of a tool and grade every difference.

Arguments: everything that was accepted must still be accepted. Results: nothing may come that could not come
before. Plain objects and arrays are compared part by part, so that a difference has a readable path; about
everything else the validation engine is asked whether one schema covers the other. Where it does not know,
the change may break callers and is graded breaking.

One reading is not strict: where an object declares some properties and says nothing about others, the others
are assumed not to be sent. Otherwise no parameter could ever be added to an open schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolcrib.catalog.diff.alternatives import Document, Values, items_of, pair_alternatives, union_of
from toolcrib.catalog.diff.renames import find_renamed_parameters
from toolcrib.catalog.schema_merge import covers, is_nothing
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema

Grade = Literal["cosmetic", "compatible", "breaking", "suspicious"]
Use = Literal["input", "output"]

_LIMITS = {
    "minimum": "minimum",
    "exclusiveMinimum": "exclusive minimum",
    "minLength": "minimum length",
    "minItems": "minimum number of items",
    "minProperties": "minimum number of properties",
    "maximum": "maximum",
    "exclusiveMaximum": "exclusive maximum",
    "maxLength": "maximum length",
    "maxItems": "maximum number of items",
    "maxProperties": "maximum number of properties",
}
_RULES = {
    **_LIMITS,
    "pattern": "pattern",
    "format": "format",
    "multipleOf": "step",
    "uniqueItems": "uniqueness",
}
_NO_LIMIT = {"minItems": 0, "minProperties": 0, "uniqueItems": False}
_MAX_DEPTH = 40
_MAX_VALUES = 5
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changed. `names` come from the definition and are put where `template` has {0}, {1}."""

    code: str
    grade: Grade
    pointer: str
    template: str
    names: tuple[str, ...] = ()
    old: Any = None
    new: Any = None


def compare_schemas(old: Any, new: Any, use: Use, pointer: str) -> list[Difference]:
    """Return everything that changed except texts. `pointer` leads to the schema in its definition."""
    if use == "input":
        old, new = _with_properties(old), _with_properties(new)
    found = _Comparison(old, new, use).compare(old, new, _Location(pointer, ""))
    # Alternatives of a union have the same pointers, and may have the same differences.
    unique = {(item.code, item.grade, item.pointer, item.template, item.names): item for item in found}
    return list(unique.values())


def _with_properties(schema: Any) -> Any:
    """Arguments are declared one by one: a tool that declares none takes none."""
    is_bare = isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema
    return {**schema, "properties": {}} if is_bare else schema


@dataclass(frozen=True, slots=True)
class _Location:
    """A place in both schemas: a JSON pointer, and a label such as `orders[].id`."""

    pointer: str
    label: str

    def property(self, name: str) -> _Location:
        token = name.replace("~", "~0").replace("/", "~1")
        label = f"{self.label}.{name}" if self.label else name
        return _Location(f"{self.pointer}/properties/{token}", label)

    def part(self, *steps: str, suffix: str) -> _Location:
        return _Location("/".join((self.pointer, *steps)), self.label + suffix)


class _Comparison:
    """The comparison of one pair of schemas."""

    def __init__(self, old: Any, new: Any, use: Use) -> None:
        self.old, self.new = Document(old), Document(new)
        self.is_input = use == "input"
        self.open: set[tuple[bytes, bytes]] = set()
        self.open_pairs: set[tuple[bytes, bytes]] = set()
        self.done: dict[tuple[bytes, bytes], tuple[str, list[Difference]]] = {}

    def compare(self, old: Any, new: Any, at: _Location) -> list[Difference]:
        """Return what changed at a location and below it. Without a breaking difference, nothing breaks."""
        key = codec.canonical(old), codec.canonical(new)
        has_references = b'"$ref"' in key[0] + key[1]
        if key[0] == key[1] and not (has_references and self._have_other_targets(old, new)):
            return []
        if key in self.open:
            return []  # a recursive schema: whatever holds above holds here
        if has_references and key in self.done and at.label:
            label, found = self.done[key]
            is_breaking = any(item.grade == "breaking" for item in found)
            words = "{} changed in the same way as {1}"
            return [self._difference("changed-alike", at, words, is_breaking, label)] if found else []
        if len(self.open) > _MAX_DEPTH:
            return [self._undescribed(old, new, at)]
        self.open.add(key)
        try:
            found = self._compare(old, new, at)
        finally:
            self.open.discard(key)
        if has_references:
            self.done.setdefault(key, (at.label, found))
        return found

    def _have_other_targets(self, old: Any, new: Any) -> bool:
        """Return whether references of two parts that look the same may lead to different schemas."""
        before, now = self.old.standalone(old), self.new.standalone(new)
        return before is None or now is None or before != now

    def _compare(self, old: Any, new: Any, at: _Location) -> list[Difference]:
        before, now = self.old.alternatives(old), self.new.alternatives(new)
        if len(before) + len(now) > 2 and self._are_equivalent(union_of(before), union_of(now)):
            return list(self._compare_unchecked(before, now, at))
        pairs = list(pair_alternatives(before, now))
        paired = {id(node) for pair in pairs for node in pair}
        found = self._compare_values(before, now, paired, at)
        for first, second in pairs:
            key = codec.canonical(first), codec.canonical(second)
            if key not in self.open_pairs:
                self.open_pairs.add(key)
                compare = self._compare_objects if first["type"] == "object" else self._compare_arrays
                found += compare(first, second, at)
                self.open_pairs.discard(key)
        return found

    # --- values: everything that is not a pair of plain objects or arrays ---

    def _compare_values(
        self, before: list[Any], now: list[Any], paired: set[int], at: _Location
    ) -> list[Difference]:
        """Compare alternatives that are not paired with all alternatives of the other side."""
        old = union_of([node for node in before if id(node) not in paired])
        new = union_of([node for node in now if id(node) not in paired])
        is_accepted = self._covers(union_of(now), old)
        is_expected = self._covers(union_of(before), new, outer_is_new=False)
        unchecked = list(self._compare_unchecked(before, now, at))
        if is_accepted and is_expected:
            return unchecked
        values = (Values.of(union_of(before), self.old), Values.of(union_of(now), self.new))
        found = list(self._describe_values(*values, at))
        is_safe = is_accepted if self.is_input else is_expected
        if is_safe:
            found = [replace(item, grade="compatible") for item in found]
            if not found:
                words = "{} now accepts more values" if self.is_input else "{} now has fewer values"
                found = [self._difference("changed", at, words, False, old=old, new=new)]
        elif not any(item.grade == "breaking" for item in found):
            found.append(self._undescribed(old, new, at, is_certain=is_safe is False))
        return found + unchecked

    def _are_equivalent(self, old: Any, new: Any) -> bool:
        return bool(self._covers(new, old) and self._covers(old, new, outer_is_new=False))

    def _covers(self, outer: Any, inner: Any, *, outer_is_new: bool = True) -> bool | None:
        sides = (self.new, self.old) if outer_is_new else (self.old, self.new)
        return covers(sides[0].standalone(outer), sides[1].standalone(inner))

    def _undescribed(self, old: Any, new: Any, at: _Location, *, is_certain: bool = False) -> Difference:
        code, words = "incomparable", "{} changed in a way that cannot be compared: it may break callers"
        if is_certain:
            code = "changed"
            words = "{} now rejects some values" if self.is_input else "{} may now have other values"
        return self._difference(code, at, words, True, old=old, new=new)

    def _describe_values(self, old: Values | None, new: Values | None, at: _Location) -> Iterator[Difference]:
        if old is None or new is None:
            return
        yield from self._describe_types(old.types, new.types, at)
        yield from self._describe_enums(old, new, at)
        for name in ("string", "integer", "number", "array", "object"):
            if len(old.rules.get(name, ())) == 1 and len(new.rules.get(name, ())) == 1:
                yield from self._compare_rules(old.rules[name][0], new.rules[name][0], at)

    def _describe_types(self, old: list[str], new: list[str], at: _Location) -> Iterator[Difference]:
        removed = [name for name in old if name not in new and not (name == "integer" and "number" in new)]
        added = [name for name in new if name not in old and not (name == "integer" and "number" in old)]
        if old and new and not set(old) & set(new):
            words = "{} was " + " or ".join(old) + " and is now " + " or ".join(new)
            is_breaking = bool(removed if self.is_input else added)
            yield self._difference("type-changed", at, words, is_breaking, old=old, new=new)
            return
        for types, is_removal in ((removed, True), (added, False)):
            if not types:
                continue
            if self.is_input:
                words = "{} no longer accepts " if is_removal else "{} now also accepts "
            else:
                words = "{} is no longer " if is_removal else "{} may now be "
            code = "type-narrowed" if is_removal else "type-widened"
            is_breaking = is_removal is self.is_input
            yield self._difference(code, at, words + " or ".join(types), is_breaking, old=old, new=new)

    def _describe_enums(self, old: Values, new: Values, at: _Location) -> Iterator[Difference]:
        verb = "accepts" if self.is_input else "has the value"
        if old.listed and new.listed:
            removed = [value for value in old.listed if not new.may_be(value)]
            added = [value for value in new.listed if not old.may_be(value)]
            for values, is_removal in ((removed, True), (added, False)):
                if not values:
                    continue
                words = f"{{}} no longer {verb} {{1}}" if is_removal else f"{{}} now also {verb} {{1}}"
                code = "value-removed" if is_removal else "value-added"
                is_breaking, shown = is_removal is self.is_input, _list(values)
                yield self._difference(code, at, words, is_breaking, shown, old=old.listed, new=new.listed)
        elif any(old.may_be(value) for value in new.listed):
            words, shown = f"{{}} now only {verb} {{1}}", _list(new.listed)
            yield self._difference("value-removed", at, words, self.is_input, shown, new=new.listed)
        elif any(new.may_be(value) for value in old.listed):
            words, shown = "{} is no longer limited to {1}", _list(old.listed)
            yield self._difference("value-added", at, words, not self.is_input, shown, old=old.listed)

    def _compare_rules(self, old: Schema, new: Schema, at: _Location) -> Iterator[Difference]:
        """Compare limits and other keywords of one type."""
        for key in _RULES:
            before, now = (
                _MISSING if node.get(key) == _NO_LIMIT.get(key) else node.get(key, _MISSING)
                for node in (old, new)
            )
            yield from self._compare_rule(key, before, now, at)

    def _compare_unchecked(self, before: list[Any], now: list[Any], at: _Location) -> Iterator[Difference]:
        """Compare keywords that tell how to read a value, and that no validator checks."""
        for key in ("contentEncoding", "contentMediaType"):
            yield from self._compare_rule(key, _first(key, before), _first(key, now), at)
        old, new = (_first("format", [node for node in nodes if _is_number(node)]) for nodes in (before, now))
        yield from self._compare_rule("format", old, new, at)

    def _compare_rule(self, key: str, before: Any, now: Any, at: _Location) -> Iterator[Difference]:
        if before == now:
            return
        noun = _RULES.get(key, key)
        is_breaking = _is_narrower(key, before, now) if self.is_input else _is_narrower(key, now, before)
        names: tuple[str, ...]
        if before is _MISSING:
            words, names = f"the {noun} of {{}} is now {{1}}", (_show(now),)
        elif now is _MISSING:
            words, names = f"the {noun} of {{}}, {{1}}, was removed", (_show(before),)
        else:
            words, names = f"the {noun} of {{}} was {{1}} and is now {{2}}", (_show(before), _show(now))
        code = "bound-changed" if key in _LIMITS else f"{key}-changed"
        here = replace(at, pointer=f"{at.pointer}/{key}")
        old, new = (None if value is _MISSING else value for value in (before, now))
        yield self._difference(code, here, words, is_breaking, *names, old=old, new=new)

    # --- arrays and objects ---

    def _compare_arrays(self, old: Schema, new: Schema, at: _Location) -> list[Difference]:
        found = list(self._compare_rules(old, new, at))
        (first, rest), (second, beyond) = items_of(old), items_of(new)
        for index in range(max(len(first), len(second))):
            before = first[index] if index < len(first) else rest
            now = second[index] if index < len(second) else beyond
            found += self.compare(before, now, at.part("prefixItems", str(index), suffix=f"[{index}]"))
        return found + self.compare(rest, beyond, at.part("items", suffix="[]"))

    def _compare_objects(self, old: Schema, new: Schema, at: _Location) -> list[Difference]:
        before, now = old.get("properties", {}), new.get("properties", {})
        required, required_now = {*old.get("required", ())}, {*new.get("required", ())}
        removed = [name for name in before if name not in now]
        added = [name for name in now if name not in before]
        found = list(self._compare_rules(old, new, at))
        for name, new_name in find_renamed_parameters(before, now, removed, added):
            removed.remove(name)
            added.remove(new_name)
            users = "callers that send" if self.is_input else "readers that use"
            here = replace(at.property(new_name), label=at.property(name).label)
            words = f"{{}} was renamed to {{1}}: {users} the old name will fail"
            found.append(self._difference("renamed", here, words, True, new_name, old=name, new=new_name))
        for name in removed:
            users = "callers that still send it" if self.is_input else "readers that use it"
            words = f"{{}} was removed: {users} will fail"
            found.append(self._difference("removed", at.property(name), words, True, old=before[name]))
        for name in added:
            found += self._compare_added(old, now[name], name in required_now, at.property(name))
        for name in sorted(required ^ required_now):
            if name not in added or name in required:
                found.append(self._compare_required(name in required_now, at.property(name)))
        both = [name for name in before if name in now]
        for name in sorted(both, key=lambda name: b'"$ref"' in codec.canonical(before[name])):
            found += self.compare(before[name], now[name], at.property(name))
        return found + self._compare_other_names(old, new, at)

    def _compare_added(
        self, old: Schema, schema: Any, is_required: bool, at: _Location
    ) -> Iterator[Difference]:
        if not self.is_input:
            yield self._difference("added", at, "{} is new", False, new=schema)
            return
        if is_required:
            words = "{} is new and required: callers that do not send it will fail"
            yield self._difference("added-required", at, words, True, new=schema)
        else:
            yield self._difference("added", at, "{} is new and optional", False, new=schema)
        others = old.get("additionalProperties", "properties" not in old)
        if not self._covers(schema, others):
            words = "{} accepted other values while it was not declared"
            yield self._difference("changed", at, words, True, old=others, new=schema)

    def _compare_required(self, is_required: bool, at: _Location) -> Difference:
        if self.is_input:
            words = "{} is now optional"
            if is_required:
                words = "{} is now required: callers that do not send it will fail"
        else:
            words = "{} may now be missing: readers that rely on it will fail"
            if is_required:
                words = "{} is now always present"
        code = "now-required" if is_required else "now-optional"
        return self._difference(code, at, words, is_required is self.is_input)

    def _compare_other_names(self, old: Schema, new: Schema, at: _Location) -> list[Difference]:
        """Compare what holds for names that are not declared."""
        before, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        is_closed, was_closed = is_nothing(now), is_nothing(before)
        here = at.part("additionalProperties", suffix=".*" if at.label else "*")
        if not is_closed and not was_closed:
            return self.compare(before, now, here)
        if is_closed == was_closed:
            return []
        words = "{} no longer accepts undeclared names" if is_closed else "{} now accepts undeclared names"
        code = "names-closed" if is_closed else "names-opened"
        here = replace(here, label=at.label)
        return [self._difference(code, here, words, is_closed is self.is_input)]

    def _difference(
        self,
        code: str,
        at: _Location,
        words: str,
        is_breaking: bool,
        *names: str,
        old: Any = None,
        new: Any = None,
    ) -> Difference:
        """Make a difference; `{}` in the words stands for the location."""
        subject = "{0}" if at.label else "the input"
        if not self.is_input:
            subject = "{0} of the result" if at.label else "the result"
        grade: Grade = "breaking" if is_breaking else "compatible"
        template = words.replace("{}", subject, 1)
        return Difference(code, grade, at.pointer, template, (at.label, *names), old, new)


def _is_narrower(key: str, before: Any, now: Any) -> bool:
    """Return whether a keyword lets less through than before, or something else."""
    if now is _MISSING:
        return False
    if before is _MISSING or key not in _LIMITS:
        return True
    try:
        return bool(now < before) if key.startswith(("max", "exclusiveMax")) else bool(now > before)
    except TypeError:
        return True


def _is_number(node: Any) -> bool:
    return isinstance(node, Mapping) and node.get("type") in ("integer", "number")


def _first(key: str, nodes: list[Any]) -> Any:
    """Return the value of a keyword in the first of some schemas that has it."""
    return next((node[key] for node in nodes if isinstance(node, Mapping) and key in node), _MISSING)


def _show(value: Any) -> str:
    return value if isinstance(value, str) else codec.canonical(value).decode()


def _list(values: list[Any]) -> str:
    shown = ", ".join(codec.canonical(value).decode() for value in values[:_MAX_VALUES])
    more = len(values) - _MAX_VALUES
    return f"{shown} and {more} more" if more > 0 else shown
