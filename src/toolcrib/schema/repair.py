"""Mends what models commonly get wrong: a number, a list or an object sent as a string.

Only where the schema cannot mean a string; a value that may be a string is never touched. Knows JSON
Schema and JSON text; decides nothing about validity, which is checked again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema

_MAX_DEPTH = 32
_MAX_VALUES = 20_000
"""How many values are looked at in one call: no model writes more, and looking takes longer than checking."""
_LONGEST = 1 << 20
_SOUND = frozenset({int, float, bool, type(None)})
"""What is neither a string nor holds one."""


class Repairer:
    """Mends values of one schema; what it finds out about the schema it keeps."""

    __slots__ = ("_chosen", "_root", "_strings")

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._strings: dict[int, bool] = {}
        self._chosen: dict[int, Schema] = {}

    def repair(self, value: Any) -> Any:
        """`value` with strings decoded where a string cannot be meant; itself where nothing is to mend."""
        return _Run(self).mend(value, self._root, 0)

    def may_be_string(self, schema: Any) -> bool:
        """Whether some string could be valid. In doubt, yes."""
        known = self._strings.get(id(schema))
        if known is None:
            known = self._strings[id(schema)] = self._find_out(schema)
        return known

    def _find_out(self, schema: Any) -> bool:
        if not isinstance(schema, Mapping):
            return schema is not False
        schema = self.follow(schema)
        kind = schema.get("type")
        if kind is not None:
            return kind == "string" or (isinstance(kind, list) and "string" in kind)
        if isinstance(schema.get("enum"), list):
            return any(isinstance(item, str) for item in schema["enum"])
        if "const" in schema:
            return isinstance(schema["const"], str)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return any(self.may_be_string(item) for item in schema[keyword])
        if isinstance(schema.get("allOf"), list):
            return all(self.may_be_string(item) for item in schema["allOf"])
        return True

    def follow(self, schema: Schema) -> Schema:
        """The schema behind local references of the plain kind."""
        for _ in range(_MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
                break
            target = self._root["$defs"].get(reference[8:])
            if not isinstance(target, Mapping):
                break
            schema = target
        return schema

    def choose(self, value: Any, schema: Schema) -> Schema:
        """The subschema that tells of a structure: of several forms, the only one that can mean the value."""
        known = self._chosen.get(id(schema))
        if known is not None:
            return known
        start, is_same = schema, True
        for _ in range(_MAX_DEPTH):
            schema = self.follow(schema)
            forms = schema.get("anyOf", schema.get("oneOf"))
            if "properties" in schema or not isinstance(forms, list):
                break
            is_same = False  # for every value, as it would be without forms
            fitting = [form for form in forms if self._may_be(value, form)]
            if len(fitting) != 1:
                break
            schema = fitting[0]
        if is_same:
            self._chosen[id(start)] = schema
        return schema

    def _may_be(self, value: Any, schema: Any) -> bool:
        """Whether a form could mean this object or array, judged by its type alone."""
        if not isinstance(schema, Mapping):
            return schema is not False
        kind = self.follow(schema).get("type")
        wanted = "object" if isinstance(value, dict) else "array"
        return kind is None or kind == wanted or (isinstance(kind, list) and wanted in kind)


class _Run:
    """One value on its way through; counts what it looks at."""

    __slots__ = ("_left", "_of")

    def __init__(self, of: Repairer) -> None:
        self._of = of
        self._left = _MAX_VALUES

    def mend(self, value: Any, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH or not (type(schema) is dict or isinstance(schema, Mapping)):
            return value
        if isinstance(value, str):
            if self._of.may_be_string(schema):
                return value
            self._left -= 1
            decoded = _decode(value)
            return decoded if decoded is value else self.mend(decoded, schema, depth + 1)
        if not isinstance(value, dict | list) or len(value) > self._left:
            return value
        self._left -= len(value)
        schema = self._of.choose(value, schema)
        mend = self.mend_object if isinstance(value, dict) else self.mend_array
        return mend(value, schema, depth)

    def mend_object(self, value: Any, schema: Schema, depth: int) -> Any:
        properties = schema.get("properties", {})
        # A pattern may mean any of the other names, and what it says of them is not looked at here.
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        mended: dict[str, Any] = {}
        for name, item in value.items():
            if type(item) in _SOUND:
                continue
            new = self.mend(item, properties.get(name, others), depth + 1)
            if new is not item:
                mended[name] = new
        return {**value, **mended} if mended else value

    def mend_array(self, value: Any, schema: Schema, depth: int) -> Any:
        first, others = schema.get("prefixItems", ()), schema.get("items")
        if isinstance(others, list):  # how drafts before 2020-12 spell prefixItems
            first, others = others, schema.get("additionalItems")
        mended = [
            item
            if type(item) in _SOUND
            else self.mend(item, first[index] if index < len(first) else others, depth + 1)
            for index, item in enumerate(value)
        ]
        return value if all(new is old for new, old in zip(mended, value, strict=True)) else mended


def _decode(text: str) -> Any:
    """The JSON value that a string spells; the string where it spells none, or spells a string."""
    if len(text) > _LONGEST:
        return text
    try:
        decoded = codec.decode(text)
    except ValueError:
        return text
    return text if isinstance(decoded, str) else decoded
