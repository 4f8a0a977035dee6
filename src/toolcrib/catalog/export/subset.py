"""A schema for providers that take a part of JSON Schema: strict OpenAI, and both fields of Gemini.

Every value is written as one type, or as an `anyOf` of such with nothing beside it. A rule that the provider
does not take goes into the description, where the model still reads it, and the change says that more values
fit now. Knows schemas and dialects; refuses to know tools.

What a value may be, form by form: each of one type, or anything, and without compositions.

Providers that take a part of JSON Schema take unions of plain forms. Knows JSON Schema; refuses to know
providers.
"""

from __future__ import annotations

import math
from typing import Any

from toolcrib.catalog.export.describe import append_words, sketch, tell
from toolcrib.catalog.export.dialects import Dialect
from toolcrib.catalog.export.restore import WRAPPER, Way, map_properties
from toolcrib.catalog.export.schema import (
    ANNOTATIONS,
    CONTENT,
    LOGIC,
    MOST_PARTS,
    TYPE_OF,
    TYPES,
    Node,
    are_apart,
    identify,
    is_anything,
    is_nothing,
    merge,
    relevant,
    simplify,
    type_of,
    types_of,
)
from toolcrib.catalog.export.verdict import (
    Journal,
    NothingFitsError,
    NotStrictError,
    Path,
    RefusedError,
    point,
)

MOST_FORMS = 40
"""How many forms one value may have; beyond that they are told in words."""


class Forms:
    """Counts what it writes out, so that a schema cannot grow without measure."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.parts = 0

    def spread(self, node: Node, path: Path, words: list[str]) -> list[Node]:
        """What a value may be, each form by itself; no form where nothing fits."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise RefusedError(f"written out in all its forms its schema has more than {MOST_PARTS} parts")
        whole = {key: value for key, value in node.items() if key not in ("allOf", "anyOf", "oneOf")}
        base = {key: value for key, value in whole.items() if key not in ANNOTATIONS}
        for branch in node.get("allOf", ()):
            self.journal.lose((*path, "allOf"), f"also: {sketch(branch)}", words)
        forms = [base]
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                forms = self._multiply(forms, node[keyword], (*path, keyword), words)
        if forms == [base]:
            return self._split(base, path)
        return [
            item
            for form in forms
            for item in (
                self._split(form, path) if not _is_composed(form) else self.spread(form, path, words)
            )
        ]

    def _multiply(self, forms: list[Node], branches: list[Node], path: Path, words: list[str]) -> list[Node]:
        found: list[Node] = []
        for form in forms:
            merged = [merge(form, branch) for branch in branches]
            if any(item is None for item in merged) or len(found) + len(merged) > MOST_FORMS:
                said = " | ".join(dict.fromkeys(sketch(branch) for branch in branches[:MOST_FORMS]))
                self.journal.lose(path, f"one of these forms: {said}", words)
                return forms
            plain = [simplify(item, path, Journal()) for item in merged if item is not None]
            plain = [item for item in plain if not is_nothing(item)]
            if path[-1] == "oneOf" and not _are_all_apart(plain):
                self.journal.lose(path, "exactly one of the forms", words)
            found.extend(plain)
        return found

    def _split(self, node: Node, path: Path) -> list[Node]:
        """The same by type."""
        kinds = types_of(node)
        said = {key: value for key, value in node.items() if key in ANNOTATIONS}
        if "enum" in node:
            return [
                {"type": kind, "enum": values, **said} for kind, values in _sort_choices(node["enum"]).items()
            ]
        logic = {key: value for key, value in node.items() if key in LOGIC}
        if not kinds:
            about = sorted({TYPE_OF[key] for key in node if key in TYPE_OF and key not in CONTENT})
            if not about:
                return [node]
            kinds = about if len(about) == 1 else list(TYPES)
            if len(about) == 1:
                words = f"no type is given; taken for {_with_article(kinds[0])}"
                self.journal.note(path, words, "narrower")
        return [{"type": kind, **relevant(node, kind), **logic, **said} for kind in kinds]


def _is_composed(node: Node) -> bool:
    return any(key in node for key in ("allOf", "anyOf", "oneOf"))


def _are_all_apart(forms: list[Node]) -> bool:
    return all(are_apart(form, other) for number, form in enumerate(forms) for other in forms[number + 1 :])


def _sort_choices(values: list[Any]) -> dict[str, list[Any]]:
    """Choices by type; whole numbers among others are numbers."""
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(type_of(value), []).append(value)
    if "number" in found and "integer" in found:
        numbers = {*map(identify, found.pop("integer")), *map(identify, found["number"])}
        found["number"] = [value for value in values if identify(value) in numbers]
    return found


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"


"""How many forms one value may have; beyond that they are told in words."""

Written = tuple[Node, Way | None]


class Subset:
    """One schema on its way into a subset."""

    def __init__(self, dialect: Dialect, journal: Journal, *, is_closed: bool) -> None:
        self.dialect = dialect
        self.journal = journal
        self.is_closed = is_closed
        self.forms = Forms(journal)

    def write_top(self, tree: Node) -> tuple[Node, Way | None, bool]:
        """The schema, the way back, and whether the arguments had to be wrapped."""
        try:
            return self._write_top(tree)
        except NothingFitsError:
            raise RefusedError("no arguments can satisfy its schema") from None

    def _write_top(self, tree: Node) -> tuple[Node, Way | None, bool]:
        words: list[str] = []
        forms = self.forms.spread(tree, (), words)
        if len(forms) == 1:
            found, way = self._unite(forms, tree, (), words)
            return {**found, "properties": found.get("properties", {})}, way, False
        self.journal.note((), f"several forms at the top: the arguments are wrapped in '{WRAPPER}'")
        inner, way = self._unite(forms, tree, (), words)
        found = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER]}
        if self.dialect.closes:
            found["additionalProperties"] = False
        return found, way, True

    def write(self, node: Node, path: Path) -> Written:
        words: list[str] = []
        return self._unite(self.forms.spread(node, path, words), node, path, words)

    def _unite(self, forms: list[Node], node: Node, path: Path, words: list[str]) -> Written:
        """All forms of a value as one schema, with what is said about all of them."""
        written: dict[Any, Written] = {}
        if len(forms) == 1:
            inner: list[str] = []
            found, way = self._write_form(forms[0], path, inner)
            return self._annotate(found, [node, forms[0]], path, [*words, *inner]), way
        for form in forms:
            inner = []
            try:
                found, way = self._write_form(form, path, inner)
            except NothingFitsError:
                continue
            found = self._annotate(found, [form], path, inner)
            written.setdefault(identify(found), (found, way))
        branches = list(written.values())
        if not branches:
            raise NothingFitsError
        if len(branches) == 1:
            found, way = branches[0]
            return self._annotate(found, [node], path, words), way
        flat: list[Written] = []
        for found, way in branches:
            if found.keys() == {"anyOf"}:  # a form that is anything is several itself
                flat.extend((branch, None) for branch in found["anyOf"])
            else:
                flat.append((found, way))
        way = Way(branches=tuple(flat)) if any(way is not None for _, way in flat) else None
        return self._annotate({"anyOf": [found for found, _ in flat]}, [node], path, words), way

    # --- one form --------------------------------------------------------------------------------------

    def _write_form(self, form: Node, path: Path, words: list[str]) -> Written:
        for keyword in sorted(form.keys() & {"if", "not"}):
            said = tell("not", form["not"]) if keyword == "not" else _tell_condition(form)
            self.journal.lose((*path, keyword), said, words)
        kind = form.get("type")
        if kind is None:
            found, way = self._write_anything(path), None
        elif kind == "object":
            found, way = self._write_object(form, path, words)
        elif kind == "array":
            found, way = self._write_array(form, path, words)
        else:
            found, way = self._write_scalar(form, path, words), None
        return found, way

    def _write_anything(self, path: Path) -> Node:
        if self.dialect.takes_any:
            return {}
        if self.dialect.closes:
            raise NotStrictError(f"{point(path) or '/'} may be anything")
        self.journal.note(path, "may be anything; arrays in arrays can hold no further arrays", "narrower")
        kinds: list[Node] = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
        inner = {"anyOf": [*kinds, {"type": "null"}]}
        return {"anyOf": [*kinds, {"type": "array", "items": inner}, {"type": "null"}]}

    def _write_scalar(self, form: Node, path: Path, words: list[str]) -> Node:
        kind = form["type"]
        found: Node = {"type": kind}
        if "enum" in form:
            return self._write_choices(found, form["enum"], path, words)
        for key, value in relevant(form, kind).items():
            if self._keeps(key, value, kind):
                found.setdefault(key, value)  # an excluded limit may have set a narrower one
            elif key == "format" and kind in ("integer", "number"):
                self.journal.note((*path, key), f"format {value}: means nothing for numbers")
            elif key in CONTENT:
                self.journal.say((*path, key), tell(key, value), words)
            elif key in ("exclusiveMinimum", "exclusiveMaximum"):
                self._write_limit(found, form, key, path, words)
            else:
                self.journal.lose((*path, key), tell(key, value), words)
        return found

    def _write_limit(self, found: Node, form: Node, key: str, path: Path, words: list[str]) -> None:
        """A limit that is not included, for a provider that knows only included ones."""
        value = form[key]
        is_low = key == "exclusiveMinimum"
        plain = "minimum" if is_low else "maximum"
        if form["type"] == "integer":
            nearest = math.floor(value) + 1 if is_low else math.ceil(value) - 1
            self.journal.note((*path, key), f"written as {plain}")
        else:
            nearest = value
            self.journal.lose((*path, key), tell(key, value), words)
        others = [other for other in (form.get(plain), found.get(plain)) if other is not None]
        found[plain] = (max if is_low else min)([nearest, *others])

    def _write_choices(self, found: Node, values: list[Any], path: Path, words: list[str]) -> Node:
        kind = found["type"]
        here = (*path, "enum")
        if kind == "null" or (kind == "boolean" and len(values) == 2):
            return found
        if kind in self.dialect.enums and (self.dialect.takes_empty_choice or "" not in values):
            return {**found, "enum": values}
        if kind == "integer":
            least, most = int(min(values)), int(max(values))
            if len(set(values)) == most - least + 1:  # all numbers between them
                self.journal.note(here, "written as minimum and maximum")
                return {**found, "minimum": least, "maximum": most}
        self.journal.lose(here, tell("enum", values), words)
        return found

    def _keeps(self, key: str, value: Any, kind: str) -> bool:
        keeps = self.dialect.keeps
        if keeps is None or key not in keeps:
            return False
        if key != "format":
            return True
        formats = self.dialect.formats
        numeric = value in ("double", "float", "int32", "int64")
        return (formats is None or value in formats) and numeric == (kind != "string")

    # --- arrays ----------------------------------------------------------------------------------------

    def _write_array(self, form: Node, path: Path, words: list[str]) -> Written:
        if "enum" in form:
            self.journal.lose((*path, "enum"), tell("enum", form["enum"]), words)
            form = {"type": "array"}
        found: Node = {"type": "array"}
        way = Way()
        items = form.get("items", True)
        first = form.get("prefixItems")
        if first is not None and not self._keeps("prefixItems", first, "array"):
            items, first = self._unite_items(form, path, words), None
        if items is False:  # no more than those that come first
            found["maxItems"] = min(form.get("maxItems", len(first or ())), len(first or ()))
            items = True
        inner = {} if items is True else items
        try:
            found["items"], way.items = self.write(inner, (*path, "items"))
        except NothingFitsError:
            found["maxItems"] = min(form.get("maxItems", len(first or ())), len(first or ()))
            found["items"], way.items = self.write({"type": "string"}, path)
        if first is not None:
            written = [
                self.write(item, (*path, "prefixItems", str(number))) for number, item in enumerate(first)
            ]
            found["prefixItems"] = [item for item, _ in written]
            way.first = tuple(item for _, item in written)
        elif "items" not in form:
            self.journal.note(path, "items may be anything: said so")
        for key, value in relevant(form, "array").items():
            if key in ("items", "prefixItems", "minContains", "maxContains") or key in found:
                continue
            if self._keeps(key, value, "array"):
                found[key] = value
            else:
                self.journal.lose((*path, key), tell(key, value), words)
        return found, None if way.is_idle else way

    def _unite_items(self, form: Node, path: Path, words: list[str]) -> Any:
        """One schema for all items, where each place has its own."""
        first = form["prefixItems"]
        rest = form.get("items", True)
        is_full = form.get("maxItems", math.inf) <= len(first)
        kinds = list({identify(item): item for item in (first if is_full else [*first, rest])}.values())
        here = (*path, "prefixItems")
        if len(kinds) == 1:
            self.journal.note(here, "all places are alike: written as items")
            return kinds[0]
        self.journal.lose(here, tell("prefixItems", first), words)
        if any(is_anything(item) for item in kinds):
            return {}
        return simplify({"anyOf": [item for item in kinds if item is not False]}, path, Journal())

    # --- objects ---------------------------------------------------------------------------------------

    def _write_object(self, form: Node, path: Path, words: list[str]) -> Written:
        if "enum" in form:
            self.journal.lose((*path, "enum"), tell("enum", form["enum"]), words)
            form = {"type": "object"}
        if self.dialect.closes:
            self._check_closing(form, path)
        properties = form.get("properties", {})
        required = list(form.get("required", ()))
        names = map_properties(properties, self.dialect.property_name, marked=False)
        way = Way(names={new: old for old, new in names.items() if new != old})
        written: dict[str, Node] = {}
        absent = []
        for name, inner in properties.items():
            here = (*path, "properties", name)
            exported = names[name]
            try:
                if is_nothing(inner):
                    raise NothingFitsError
                found, below = self.write(inner, here)
            except NothingFitsError:
                if name in required:
                    raise
                self._leave_out(form, here)
                continue
            if exported != name:
                self.journal.note(here, f"called {exported!r}: {self.dialect.label} refuses the name")
            if self.dialect.closes and name not in required:
                found = _make_nullable(found, inner, here)
                absent.append(exported)
                self.journal.note(here, "may be left out: null stands for that")
            written[exported] = found
            if below is not None:
                way.below[exported] = below
        way.absent = frozenset(absent)
        found = {"type": "object"}
        if written or "properties" in form:
            found["properties"] = written
        undeclared = [name for name in required if name not in properties]
        if undeclared:
            self.journal.lose((*path, "required"), tell("required", undeclared), words)
        needed = list(written) if self.dialect.closes else [names[name] for name in required if name in names]
        if needed or self.dialect.closes:
            found["required"] = needed
        self._write_other_names(form, found, way, path, words)
        return found, None if way.is_idle else way

    def _check_closing(self, form: Node, path: Path) -> None:
        """Raise where an object is meant to have names that nobody can list."""
        place = point(path) or "/"
        rest = form.get("additionalProperties")
        if "patternProperties" in form or (rest is not None and not is_nothing(rest)):
            raise NotStrictError(f"{place} takes names that are not declared")
        if rest is None and "properties" not in form and not (self.is_closed and not path):
            raise NotStrictError(f"{place} is an object of any names")
        undeclared = [name for name in form.get("required", ()) if name not in form.get("properties", {})]
        if undeclared:
            raise NotStrictError(f"{place} needs {undeclared[0]!r} and does not say what it is")

    def _leave_out(self, form: Node, path: Path) -> None:
        is_shut = is_nothing(form.get("additionalProperties", True)) and self._keeps(
            "additionalProperties", False, "object"
        )
        effect_is_same = self.dialect.closes or is_shut
        self.journal.note(path, "must not be there: not declared", "same" if effect_is_same else "wider")

    def _write_other_names(self, form: Node, found: Node, way: Way, path: Path, words: list[str]) -> None:
        rest = form.get("additionalProperties", True)
        if self.dialect.closes:
            found["additionalProperties"] = False
            if rest is True and not (self.is_closed and not path):
                self.journal.note(path, "names that are not declared cannot be given")
        elif self._keeps("additionalProperties", rest, "object") and "patternProperties" not in form:
            if isinstance(rest, dict):
                try:
                    here = (*path, "additionalProperties")
                    found["additionalProperties"], way.rest = self.write(rest, here)
                except NothingFitsError:
                    found["additionalProperties"] = False
            elif "additionalProperties" in form:
                found["additionalProperties"] = rest
        elif not is_anything(rest):
            here = (*path, "additionalProperties")
            is_held = is_nothing(rest) and self.is_closed and not path
            self.journal.note(
                here, f"{tell('additionalProperties', rest)}: not enforced", "same" if is_held else "wider"
            )
            if not is_nothing(rest):
                words.append(tell("additionalProperties", rest))
        for key, value in relevant(form, "object").items():
            if key in ("additionalProperties", "properties", "required"):
                continue
            if self._keeps(key, value, "object"):
                found[key] = value
            elif key == "dependentSchemas":
                for name, inner in value.items():
                    self.journal.lose((*path, key, name), f"with {name}: {sketch(inner)}", words)
            else:
                self.journal.lose((*path, key), tell(key, value), words)

    # --- words -----------------------------------------------------------------------------------------

    def _annotate(self, found: Node, nodes: list[Node], path: Path, words: list[str]) -> Node:
        """What is said beside the rules: title, description, default, examples."""
        found = dict(found)
        said: Node = {}
        for node in nodes:
            said = {**{key: value for key, value in node.items() if key in ANNOTATIONS}, **said}
        if isinstance(said.get("title"), str):
            found["title"] = said["title"]
        if "default" in said:
            if self.dialect.takes_default:
                found["default"] = said["default"]
            else:
                self.journal.say((*path, "default"), tell("default", said["default"]), words)
        if said.get("examples"):
            self.journal.say((*path, "examples"), tell("examples", said["examples"]), words)
        words += [key for key in ("deprecated", "readOnly", "writeOnly") if said.get(key) is True]
        texts = [text for node in (*nodes, found) if isinstance(text := node.get("description"), str)]
        text = append_words("\n".join(dict.fromkeys(texts)), words)
        if text:
            found["description"] = text
        return found


def _make_nullable(found: Node, inner: Node, path: Path) -> Node:
    """The schema of a property that may be left out, with null for that."""
    branches = found.get("anyOf", [found])
    if any(branch.get("type") == "null" for branch in branches):
        if "default" in inner and inner["default"] is None:
            return found  # which is to say the same as nothing
        raise NotStrictError(f"{point(path)} may be null or left out, which are not the same")
    said: Node = {key: found[key] for key in ("title", "description") if key in found}
    plain = {key: value for key, value in found.items() if key not in said}
    if "anyOf" in plain:
        return {**said, "anyOf": [*plain["anyOf"], {"type": "null"}]}
    return {**said, "anyOf": [plain, {"type": "null"}]}


def _tell_condition(form: Node) -> str:
    parts = [f"if {sketch(form['if'])}"]
    parts += [f"{word} {sketch(form[word])}" for word in ("then", "else") if word in form]
    return ", ".join(parts)
