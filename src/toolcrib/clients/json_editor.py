"""The servers in a JSON file: who is there, one more, one less.

Knows that they are members of one object of the document. Every text it makes is read again and compared with
what was wanted before anybody gets it; refuses to know files and what an entry means.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.clients import jsonc_edit
from toolcrib.clients.jsonc_scan import LENIENT, Dialect, Member, Node, Scan, scan
from toolcrib.clients.malformed import CannotEditError, MalformedError


@dataclass(frozen=True, slots=True)
class JsonEditor:
    """`container` is the member that holds the servers; `dialect` what the client reads."""

    container: str
    dialect: Dialect = LENIENT

    def servers(self, text: str) -> dict[str, Any]:
        """Every entry by its name. Raises MalformedError."""
        found = scan(text, self.dialect)
        place = self._place(found)
        return dict(place.value) if place is not None else {}

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """The text with this entry under this name; what else the document says is as it was."""
        found = scan(text, self.dialect)
        place = self._place(found)
        if found.root is None:
            new = (f"{text.rstrip()}\n" if found.comments else "") + self.show(name, entry)
        elif place is None:
            new = jsonc_edit.insert_member(found, found.root, self.container, {name: dict(entry)})
        elif name in place.value:
            new = self._change(found, name, entry)
        else:
            new = jsonc_edit.insert_member(found, place, name, dict(entry))
        servers = {**(place.value if place is not None else {}), name: dict(entry)}
        after = self._checked(new, found, servers)
        if Counter(found.show_comments()) - Counter(after.show_comments()):
            raise CannotEditError
        return new

    def drop(self, text: str, name: str) -> str:
        """The text without the entry of this name, which must be there."""
        found = scan(text, self.dialect)
        place, index = self._locate(found, name)
        new = jsonc_edit.remove_member(found, place, index)
        self._checked(new, found, {key: value for key, value in place.value.items() if key != name})
        return new

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """A whole document with one entry, ready to paste."""
        return json.dumps({self.container: {name: dict(entry)}}, indent=2, ensure_ascii=False) + "\n"

    def _place(self, found: Scan) -> Node | None:
        """The object that holds the servers; None where there is none yet."""
        root = found.root
        if root is None:
            return None
        if root.members is None:
            raise MalformedError(
                f"must hold an object, got {_kind(root.value)}",
                found.line_of(root.start),
                "put {...} around it",
            )
        where = root.find(self.container)
        if not where:
            return None
        if len(where) > 1:
            again = found.line_of(root.members[where[1]].start)
            raise MalformedError(f'"{self.container}" is there twice', again, "make one of the two")
        place = root.members[where[0]].value
        if place.members is None:
            raise MalformedError(
                f'"{self.container}" must be an object, got {_kind(place.value)}',
                found.line_of(place.start),
                'write it as {"NAME": {...}}',
            )
        return place

    def _locate(self, found: Scan, name: str) -> tuple[Node, int]:
        """The object that holds the servers, and which of its members has this name."""
        place = self._place(found)
        where = place.find(name) if place is not None else []
        if place is None or place.members is None or not where:
            raise KeyError(name)
        if len(where) > 1:
            again = found.line_of(place.members[where[1]].start)
            raise MalformedError(f'the server "{name}" is there twice', again, "take one of the two out")
        return place, where[0]

    def _change(self, found: Scan, name: str, entry: Mapping[str, Any]) -> str:
        """Member by member, so that what stays the same keeps its looks and its comments."""
        member = self._member(found, name)
        if member.value.members is None:
            return jsonc_edit.replace_value(found, member, dict(entry))
        before = member.value.value
        for key, value in entry.items():
            if key not in before:
                new = jsonc_edit.insert_member(found, self._member(found, name).value, key, value)
            elif before[key] != value:
                holder = self._member(found, name).value
                new = jsonc_edit.replace_value(found, (holder.members or ())[holder.find(key)[0]], value)
            else:
                continue
            found = scan(new, self.dialect)
        for key in [key for key in before if key not in entry]:
            holder = self._member(found, name).value
            found = scan(jsonc_edit.remove_value(found, holder, holder.find(key)[0]), self.dialect)
        return found.text

    def _member(self, found: Scan, name: str) -> Member:
        place, index = self._locate(found, name)
        return (place.members or ())[index]

    def _checked(self, text: str, before: Scan, servers: Mapping[str, Any]) -> Scan:
        """The new text, read again: nothing but the servers may differ."""
        after = scan(text, self.dialect)
        document = before.root.value if before.root is not None else {}
        if after.root is None or after.root.value != {**document, self.container: servers}:
            raise CannotEditError
        return after


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
