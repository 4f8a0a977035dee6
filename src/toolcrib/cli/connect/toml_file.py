"""Edit the servers in a TOML file.

Each server is a table below one table. Comments and everything else in the file are kept. Every new text is
parsed again and compared with the intended document before it is returned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.cli.connect.json_file import CannotEditError, MalformedError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_START, _END = "\ue000", "\ue001"
"""Private-use characters that mark statements to remove."""
_TOKEN = re.compile(
    r'"""(?:\\[\s\S]|(?!""")[\s\S])*"{3,5}'
    r"|'''(?:(?!''')[\s\S])*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|(?P<comment>#[^\r\n]*)"
)
_ONLY_COMMENTS = re.compile(r"(?:\s|#[^\r\n]*)*")


@dataclass(frozen=True, slots=True)
class TomlEditor:
    """`container` is the table whose tables are the servers."""

    container: str

    def servers(self, text: str) -> dict[str, Any]:
        """Return every entry by its name. Raises MalformedError."""
        return self._servers(_parse(text).unwrap(), text)

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with this entry; the rest of the document is unchanged."""
        before = self.servers(text)
        eol = _eol(text)
        if isinstance(before.get(name), dict):
            new = self._change(text, name, entry)
        else:
            gap = "" if not text.strip() else eol if text.endswith("\n") else eol * 2
            new = text + gap + self.show(name, entry).replace("\n", eol)
        self._check(new, text, {**before, name: dict(entry)})
        if Counter(list_comments(text)) - Counter(list_comments(new)):
            raise CannotEditError
        return new

    def drop(self, text: str, name: str) -> str:
        """Return the text without this entry. Raises KeyError."""
        before = self.servers(text)
        del before[name]
        new = text
        for part in _find_source(_parse(text), (self.container, name)):
            new = _cut(new, part)
        self._check(new, text, before)
        return new

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """Return the table of one entry, ready to paste."""
        import tomlkit

        table = tomlkit.table()
        table.update({key: _to_item(value) for key, value in entry.items()})
        servers = tomlkit.table(is_super_table=True)
        servers[name] = table
        return tomlkit.dumps({self.container: servers}).lstrip("\n")

    def _servers(self, document: Mapping[str, Any], text: str) -> dict[str, Any]:
        servers = document.get(self.container, {})
        if not isinstance(servers, dict):
            found = re.search(rf"^[ \t\[]*[\"']?{self.container}", text, re.MULTILINE)
            line = None if found is None else text.count("\n", 0, found.end()) + 1
            hint = f"write [{self.container}.NAME] tables"
            raise MalformedError(f"{self.container} must be a table", line, hint)
        return dict(servers)

    def _change(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """Change key by key, so that unchanged keys keep their format; keep the comments of all."""
        path, eol = (self.container, name), _eol(text)
        first, *others = _find_source(_parse(text), path)
        source = eol.join([first, *others])
        document = _parse(source)  # alone, so that comments around the entry stay where they are
        tables = [item for found, item in _walk(document.body) if found == path]
        if not tables or text.count(first) != 1:
            raise CannotEditError
        before = document.unwrap()[self.container][name]
        for key in dict.fromkeys([*before, *entry]):
            if key in before and key in entry and before[key] == entry[key]:
                continue
            holder = next((table for table in tables if key in table), tables[0])
            if key in before and (key not in entry or isinstance(before[key], dict)):
                for table in tables:
                    table.pop(key, None)
            if key in entry:
                holder[key] = _to_item(entry[key])
        new = document.as_string().rstrip("\r\n")
        lost = Counter(list_comments(source)) - Counter(list_comments(new))
        replacement = re.sub(r"\r?\n", eol, "\n".join([*lost.elements(), new]))
        for part in others:
            text = _cut(text, part)
        return text.replace(first, replacement)

    def _check(self, text: str, before: str, servers: Mapping[str, Any]) -> None:
        """Raise CannotEditError where anything but the servers differs."""
        try:
            after = _parse(text).unwrap()
        except MalformedError:
            raise CannotEditError from None
        if {self.container: {}, **after} != {**_parse(before).unwrap(), self.container: servers}:
            raise CannotEditError


def _parse(text: str) -> TOMLDocument:
    import tomlkit  # delayed: only Codex has a TOML file
    from tomlkit.exceptions import ParseError

    try:
        return tomlkit.parse(text)
    except ParseError as error:
        message = str(error).partition(" at line ")[0]
        raise MalformedError(f"is not TOML: {message}", error.line) from None


def _to_item(value: Any) -> Any:
    """Return a value for tomlkit; a mapping becomes an inline table."""
    import tomlkit

    if not isinstance(value, Mapping):
        return value
    table = tomlkit.inline_table()
    table.update({key: _to_item(item) for key, item in value.items()})
    return table


def list_comments(text: str) -> list[str]:
    return [found["comment"] for found in _TOKEN.finditer(text) if found["comment"]]


def _walk(body: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and item of every header and assignment; inline tables are not entered."""
    from tomlkit.items import AoT, Table

    for key, item in body:
        if key is not None:
            here = (*path, key.key)
            for each in item.body if isinstance(item, AoT) else [item]:
                yield here, each
                if isinstance(each, Table):
                    yield from _walk(each.value.body, here)


def _find_source(document: TOMLDocument, path: tuple[str, str]) -> list[str]:
    """Return the source of the statements below a path; those that follow each other are one text.

    tomlkit may reorder tables when it renders a document, so that only the parts are taken from there.
    """
    for found, item in _walk(document.body):
        if found[:2] == path:
            item.trivia.indent = f"{_START}{item.trivia.indent}"
            item.trivia.trail = f"{_END}{item.trivia.trail}"
    _, first, *others = re.split(f"{_START}([^{_END}]*){_END}", document.as_string())[:-1] or ("", "")
    parts = [first]
    for between, part in zip(others[::2], others[1::2], strict=True):
        if _ONLY_COMMENTS.fullmatch(between):
            parts[-1] += between + part
        else:
            parts.append(part)
    return parts


def _cut(text: str, part: str) -> str:
    """Remove lines from a text, and the blank line that set them apart."""
    if not part or text.count(part) != 1:
        raise CannotEditError
    before, _, after = text.partition(part)
    after = re.sub(r"\A\r?\n", "", after)
    if not after.strip() or after.startswith(("\n", "\r\n")):
        before = re.sub(r"(^|\n)\r?\n\Z", r"\1", before)
    return before + after


def _eol(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
