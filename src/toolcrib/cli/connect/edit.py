"""Add, replace and remove a server in the configuration file of a client.

The file is JSON, with or without comments, TOML or YAML. Its servers are the members of one object, the
container. An edit adds or removes one of them and keeps every other character; the new text is parsed again
and compared with the intended document, and never written if it differs.

An existing file is backed up once before the first change, and replaced atomically with its mode, owner, byte
order mark and line ends; a link is followed to its file. A change by another program in between is detected.
"""

from __future__ import annotations

import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from toolcrib.config.atomic_file import PRIVATE, create_file, replace_file
from toolcrib.config.fields import parse_toml
from toolcrib.errors import ConfigurationError, SourceError
from toolcrib.sources.descriptors.formats import parse_text

_BOM = b"\xef\xbb\xbf"
COMMAND_KEYS = ("command", "cmd")
ENV_KEYS = ("env", "envs")
HEADER_KEYS = ("headers", "http_headers")
URL_KEYS = ("url", "httpUrl", "serverUrl", "uri")
"""The names that clients have for the parts of an entry."""
# The keys that say how to reach a server; the others (timeouts, trust, switches) belong to the user.
_TRANSPORT = ("type", *COMMAND_KEYS, "args", *ENV_KEYS, *URL_KEYS)
_PRESETS = ("enabled", "description", "timeout")
"""Keys that a new entry may have and that belong to the user from then on."""

State = Literal[
    "connected", "replaced", "already-connected", "different", "removed", "not-connected", "foreign"
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an edit: the entry that existed before, and the backup if one was made now."""

    state: State
    existing: Any = None
    backup: Path | None = None


def connect(
    editor: Editor,
    file: Path,
    name: str,
    entry: Mapping[str, Any],
    *,
    force: bool = False,
    mode: int | None = PRIVATE,
) -> Outcome:
    """Add an entry; one of the same name is replaced only with `force`. `mode` is for a new file."""
    with _errors(file, f"add this by hand:\n{editor.show(name, entry)}".rstrip()):
        content = read(file)
        servers = editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        if name in servers and not force:
            return Outcome("different", existing)
        text = editor.put(content.text, name, _merge(existing, entry))
        return Outcome("replaced" if name in servers else "connected", existing, write(content, text, mode))


def disconnect(editor: Editor, file: Path, name: str, is_ours: Callable[[Any], bool]) -> Outcome:
    """Remove an entry, if it is ours."""
    with _errors(file, "remove it by hand"):
        content = read(file)
        servers = editor.servers(content.text)
        if name not in servers:
            return Outcome("not-connected")
        existing = servers[name]
        if not is_ours(existing):
            return Outcome("foreign", existing)
        text = editor.drop(content.text, name)
        return Outcome("removed", existing, write(content, text, PRIVATE))


def list_servers(editor: Editor, file: Path) -> dict[str, Any]:
    """Return every entry of a file by its name. Raises ConfigurationError."""
    with _errors(file):
        return editor.servers(read(file).text)


def _is_same(existing: Any, entry: Mapping[str, Any]) -> bool:
    """Return whether two entries reach the same server; an empty environment is none. Headers are compared
    where the new entry has some; otherwise those of the user are kept."""
    if not isinstance(existing, Mapping):
        return False
    compared = {*_TRANSPORT, *entry} - {*_PRESETS}

    def known(given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: value for key, value in given.items() if key in compared and (value or key not in ENV_KEYS)
        }

    return known(existing) == known(entry)


def _merge(existing: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new entry with the other keys of the old one, unless the transport changes: headers make no
    sense for a command, and Codex rejects a file that has both."""
    if not isinstance(existing, Mapping) or _starts_program(existing) != _starts_program(entry):
        return dict(entry)
    kept = {
        key: value
        for key, value in existing.items()
        if key in _PRESETS or (key not in _TRANSPORT and key not in entry)
    }
    return {**entry, **kept}


def _starts_program(entry: Mapping[str, Any]) -> bool:
    return any(key in entry for key in COMMAND_KEYS)


@contextmanager
def _errors(file: Path, by_hand: str | None = None) -> Iterator[None]:
    """Add the file to errors of its text; `by_hand` is the hint where it cannot be edited."""
    try:
        yield
    except ConfigurationError as error:
        if error.file is not None:
            raise
        hint = by_hand if isinstance(error, CannotEditError) else error.hint
        hint = hint or "fix the file, or use --print and paste the entry"
        raise ConfigurationError(error.message, file=str(file), line=error.line, hint=hint) from None


# --- the file ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file when it was read; `data` is None where there was none. `path` is not a link."""

    path: Path
    data: bytes | None
    text: str
    facts: os.stat_result | None = None

    @property
    def backup(self) -> Path:
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> Content:
    """Read a file, which need not exist. Raises ConfigurationError."""
    real = Path(os.path.realpath(path))
    try:
        facts = os.stat(real)
        if not stat.S_ISREG(facts.st_mode):
            _fail(path, "is not a file", "name the configuration file of the client")
        data = real.read_bytes()
        return Content(real, data, data.removeprefix(_BOM).decode(), facts)
    except FileNotFoundError:
        return Content(real, None, "")
    except OSError as error:
        _fail(path, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        _fail(path, "is not UTF-8", "save it as UTF-8")


def write(content: Content, text: str, mode: int | None) -> Path | None:
    """Replace a file; return the backup, where one was made now.

    `mode` is for a new file. Raises ConfigurationError; the file is then unchanged.
    """
    path, facts, old = content.path, content.facts, content.data
    try:
        data = (_BOM if old is not None and old.startswith(_BOM) else b"") + text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        if facts is not None:
            mode = stat.S_IMODE(facts.st_mode)
        with replace_file(path, mode, facts) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # may take long: the checks come after it
            if (path.read_bytes() if path.exists() else None) != old:
                _fail(path, "was changed by another program just now", "run the command again")
            if old is not None and not os.access(path, os.W_OK):
                _fail(path, "cannot be written: it is read-only", "use --print and paste the entry")
            # Only the state before the first change is worth keeping.
            is_backed_up = old is not None and create_file(content.backup, old, mode, facts)
        return content.backup if is_backed_up else None
    except UnicodeEncodeError:
        _fail(path, "cannot contain a path or value that is not text", "rename what the entry names")
    except OSError as error:
        _fail(path, f"cannot be written: {error.strerror}", "use --print and paste the entry")


def _fail(path: Path, problem: str, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(problem, file=str(path), hint=hint) from None


# --- the text ---------------------------------------------------------------------------------------


class CannotEditError(ConfigurationError):
    """The file is valid, but cannot be changed without losing something else in it."""

    def __init__(self) -> None:
        super().__init__("cannot be edited without losing something else in it")


@dataclass(frozen=True, slots=True)
class Editor(ABC):
    """Edits the servers in a text. Errors are ConfigurationErrors with a line and without a file."""

    container: str
    token: ClassVar[re.Pattern[str]]
    """Matches strings, and comments as the group `comment`."""

    @abstractmethod
    def parse(self, text: str) -> dict[str, Any]: ...

    @abstractmethod
    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """Return a document with one entry, ready to paste."""

    @abstractmethod
    def insert(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with a new entry, not verified."""

    @abstractmethod
    def remove(self, text: str, name: str) -> tuple[str, Iterable[str]]:
        """Return the source of an entry, and texts without it, the best one first, not verified."""

    def servers(self, text: str) -> dict[str, Any]:
        """Return every entry by its name."""
        return self._servers(self.parse(text), text)

    def put(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with this entry in place of one of the same name."""
        if name in self.servers(text):
            source, texts = self.remove(text, name)
            if any(found["comment"] for found in self.token.finditer(source)):
                raise CannotEditError
            text = self._verify(texts, text, name, None)
        return self._verify([self.insert(text, name, entry)], text, name, entry)

    def drop(self, text: str, name: str) -> str:
        """Return the text without this entry and the comments in it. Raises KeyError."""
        if name not in self.servers(text):
            raise KeyError(name)
        return self._verify(self.remove(text, name)[1], text, name, None)

    def _servers(self, document: Mapping[str, Any], text: str) -> dict[str, Any]:
        servers = document.get(self.container, {})
        if not isinstance(servers, dict):
            line = text.count("\n", 0, text.find(self.container)) + 1
            raise ConfigurationError(f'"{self.container}" must hold named servers', line=line)
        return dict(servers)

    def _verify(self, texts: Iterable[str], before: str, name: str, entry: Mapping[str, Any] | None) -> str:
        """Return the first text in which only this entry is new, or gone where it is None."""
        document = self.parse(before)
        servers = self._servers(document, before)
        servers.pop(name, None)
        if entry is not None:
            servers[name] = dict(entry)
        for text in texts:
            try:
                if {self.container: {}, **self.parse(text)} == {**document, self.container: servers}:
                    return text
            except ConfigurationError:
                continue
        raise CannotEditError


# --- JSON --------------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\]|\\.)*"'
_TRAILING_COMMA = re.compile(rf"{_STRING}|(?P<comma>,)(?=\s*[}}\]])")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: the positions of its key, its value, its end and the comma after it, if any."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class JsonText:
    """A JSON text: as it is, without comments, and without trailing commas too.

    Comments and commas are replaced by blanks, so that `json` can read it and positions stay the same.
    """

    text: str
    clean: str
    plain: str

    def members(self, start: int) -> list[Member]:
        """Return the members of the object at a position."""
        found: list[Member] = []
        at = self.skip(start + 1)
        while self.clean[at] != "}":
            key, end = _DECODER.raw_decode(self.plain, at)
            value = self.skip(self.skip(end) + 1)
            _, end = _DECODER.raw_decode(self.plain, value)
            after = self.skip(end)
            has_comma = self.clean[after] == ","
            found.append(Member(key, at, value, end, after if has_comma else None))
            at = self.skip(after + 1) if has_comma else after
        return found

    def find(self, start: int, key: str) -> tuple[list[Member], int] | None:
        """Return the members of an object and the index of a key, the last one as for any parser."""
        members = self.members(start)
        found = [index for index, member in enumerate(members) if member.key == key]
        return (members, found[-1]) if found else None

    def skip(self, at: int) -> int:
        """Return the position of the next character that is no space and in no comment."""
        found = _SPACE.match(self.clean, at)
        return found.end() if found else at

    def insert(self, start: int, key: str, value: Any) -> str:
        """Return the text with a new first member of the object at a position."""
        eol = "\r\n" if "\r\n" in self.text else "\n"
        root = self.members(self.skip(0))
        base, unit = _indent_of(self.text, start), _indent_of(self.text, root[0].start) if root else ""
        indent = base + (unit or "  ")
        shown = json.dumps(value, ensure_ascii=False, indent=unit or "  ").replace("\n", eol + indent)
        new = f"{eol}{indent}{json.dumps(key)}: {shown}"
        head, rest = self.text[: start + 1], self.text[start + 1 :]
        if self.members(start):
            return f"{head}{new},{rest}"
        return f"{head}{new}{eol}{base}{rest.lstrip()}"


def _indent_of(text: str, position: int) -> str:
    """Return the indentation of the line of a position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


@dataclass(frozen=True, slots=True)
class JsonEditor(Editor):
    """`comments` and `trailing_commas` say what the client accepts beyond plain JSON."""

    comments: bool = False
    trailing_commas: bool = False
    token: ClassVar = re.compile(rf"{_STRING}|(?P<comment>//[^\r\n]*|/\*[\s\S]*?\*/)")

    def read(self, text: str) -> JsonText:
        clean = self._blank(self.token, text) if self.comments else text
        plain = self._blank(_TRAILING_COMMA, clean) if self.trailing_commas else clean
        return JsonText(text, clean, plain)

    @staticmethod
    def _blank(pattern: re.Pattern[str], text: str) -> str:
        """Replace everything that a group of the pattern matches by blanks."""
        return pattern.sub(lambda found: re.sub(r"\S", " ", found[0]) if found[1] else found[0], text)

    def parse(self, text: str) -> dict[str, Any]:
        plain = self.read(text).plain
        try:
            value = json.loads(plain) if plain.strip() else {}
        except json.JSONDecodeError as error:
            raise ConfigurationError(f"{error.msg[0].lower()}{error.msg[1:]}", line=error.lineno) from None
        except RecursionError:
            raise ConfigurationError("nested too deeply") from None
        if not isinstance(value, dict):
            raise ConfigurationError("must be an object", line=1, hint="put {...} around it")
        return value

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        return json.dumps({self.container: {name: dict(entry)}}, indent=2, ensure_ascii=False) + "\n"

    def insert(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        found = self.read(text)
        if not found.plain.strip():
            return (f"{text.rstrip()}\n" if text.strip() else "") + self.show(name, entry)
        root = found.skip(0)
        holder = found.find(root, self.container)
        if holder is None:
            return found.insert(root, self.container, {name: dict(entry)})
        members, index = holder
        return found.insert(members[index].value, name, dict(entry))

    def remove(self, text: str, name: str) -> tuple[str, Iterable[str]]:
        found = self.read(text)
        holder = found.find(found.skip(0), self.container)
        entry = found.find(holder[0][holder[1]].value, name) if holder else None
        if entry is None:
            raise KeyError(name)
        members, index = entry
        member = members[index]
        head, tail = text[: member.start], text[member.end :]
        if member.comma is not None:
            tail = text[member.end : member.comma] + text[member.comma + 1 :]
        elif index > 0 and (comma := members[index - 1].comma) is not None:
            head = text[:comma] + text[comma + 1 : member.start]
        texts = [head.rstrip() + tail, head + tail]  # the second where a line comment is before it
        if len(members) == 1:
            texts.insert(0, head.rstrip() + tail.lstrip())
        return text[member.start : member.end], texts


# --- TOML --------------------------------------------------------------------------------------------

_BLANK_OR_COMMENT = re.compile(r"\s*(?:#.*)?\s*")


@dataclass(frozen=True, slots=True)
class TomlEditor(Editor):
    """Edits entries that are tables of their own, as Codex writes them: `[mcp_servers.NAME]`."""

    token: ClassVar = re.compile(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?P<comment>#)""")

    def parse(self, text: str) -> dict[str, Any]:
        return parse_toml(text)

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        import tomlkit  # delayed: only Codex has a TOML file

        return tomlkit.dumps({self.container: {name: dict(entry)}})

    def insert(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        eol = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text.strip() else eol if text.endswith("\n") else eol * 2
        return text + gap + self.show(name, entry).replace("\n", eol)

    def remove(self, text: str, name: str) -> tuple[str, Iterable[str]]:
        lines = text.splitlines(keepends=True)
        headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
        kept, removed = lines[: headers[0]] if headers else lines, ""
        for start, end in pairwise([*headers, len(lines)]):
            if not self._is_header(lines[start], name):
                kept += lines[start:end]
                continue
            statements = [at for at in range(start, end) if not _BLANK_OR_COMMENT.fullmatch(lines[at])]
            removed += "".join(lines[start : statements[-1] + 1])
            rest = lines[statements[-1] + 1 : end]  # belongs to what follows
            if kept and not kept[-1].strip() and not "".join(rest[:1]).strip():
                kept.pop()  # the blank line that set it apart
            kept += rest
        return removed, ["".join(kept)]

    def _is_header(self, line: str, name: str) -> bool:
        """Return whether a line begins the table of an entry, or one below it."""
        try:
            return name in parse_toml(line).get(self.container, ())
        except ConfigurationError:
            return False


# --- YAML --------------------------------------------------------------------------------------------

_YAML_PLAIN = re.compile(r"[A-Za-z/_][\w./@+=-]*(?: [\w./@+=-]+)*", re.ASCII)
"""Strings that need no quotes, apart from the words below."""
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_YAML_EMPTY = re.compile(r"(?:\{\s*\}|~|null)?\s*(#.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class YamlEditor(Editor):
    """Edits entries that are blocks of lines below the container, as Goose writes them.

    PyYAML, an optional dependency, reads the file; it could not write it without losing the comments.
    """

    token: ClassVar = re.compile(r"(?P<comment>(?<!\S)#)")  # in quotes too: apostrophes do not always quote

    def parse(self, text: str) -> dict[str, Any]:
        if not re.search(r"^\s*[^#\s]", text, re.MULTILINE):
            return {}
        try:
            value = parse_text(text, Path("config.yaml"))
        except SourceError as error:
            hint = error.hint and f"{error.hint.partition(',')[0]}, or use --print and paste the entry"
            message = error.message.removeprefix("config.yaml ")
            raise ConfigurationError(message, line=error.source.line, hint=hint) from None
        if not isinstance(value, dict):
            raise ConfigurationError("must be a mapping", line=1)
        return {key: {} if key == self.container and item is None else item for key, item in value.items()}

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        return "\n".join(_yaml_lines({self.container: {name: entry}})) + "\n"

    def insert(self, text: str, name: str, entry: Mapping[str, Any]) -> str:
        eol = "\r\n" if "\r\n" in text else "\n"
        lines = text.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += eol
        at = self._find(lines, self.container, 0, len(lines), "")
        if at is None:
            return "".join(lines) + self.show(name, entry).replace("\n", eol)
        key, _, value = lines[at].partition(":")
        if empty := _YAML_EMPTY.fullmatch(value.strip()):
            comment = f" {empty[1]}" if empty[1] else ""
            lines[at] = f"{key}:{comment}{eol}"
        indent = self._indent_below(lines, at) or "  "
        lines[at + 1 : at + 1] = [f"{indent}{line}{eol}" for line in _yaml_lines({name: entry})]
        return "".join(lines)

    def remove(self, text: str, name: str) -> tuple[str, Iterable[str]]:
        lines = text.splitlines(keepends=True)
        holder = self._find(lines, self.container, 0, len(lines), "")
        indent = None if holder is None else self._indent_below(lines, holder)
        if holder is None or indent is None:
            return "", []
        start = self._find(lines, name, holder + 1, self._end(lines, holder, ""), indent)
        if start is None:
            return "", []
        end = self._end(lines, start, indent)
        before, removed, after = lines[:start], lines[start:end], lines[end:]
        if self._indent_below([*before, *after], holder) is None:
            key, _, rest = before[holder].partition(":")
            before[holder] = f"{key}: {{}}{rest}"
        return "".join(removed), ["".join([*before, *after])]

    @staticmethod
    def _find(lines: list[str], key: str, start: int, end: int, indent: str) -> int | None:
        """Return the line of a key with this indentation."""
        pattern = re.compile(rf"{indent}(?P<quote>[\"']?){re.escape(key)}(?P=quote)\s*:(?:\s|$)")
        return next((at for at in range(start, end) if pattern.match(lines[at])), None)

    @staticmethod
    def _end(lines: list[str], start: int, indent: str) -> int:
        """Return where the block of a key ends; comments after it belong to what follows."""
        end = start + 1
        for at in range(start + 1, len(lines)):
            line = lines[at]
            if _BLANK_OR_COMMENT.fullmatch(line):
                continue
            if len(line) - len(line.lstrip(" ")) <= len(indent):
                break
            end = at + 1
        return end

    @staticmethod
    def _indent_below(lines: list[str], holder: int) -> str | None:
        """Return the indentation of the keys below a line, or None where it has none."""
        for line in lines[holder + 1 :]:
            if not _BLANK_OR_COMMENT.fullmatch(line):
                return line[: len(line) - len(line.lstrip(" "))] or None
        return None


def _yaml_lines(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a mapping in block style."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield f"{_yaml_scalar(key)}:"
            yield from (f"  {line}" for line in _yaml_lines(item))
        elif isinstance(item, list) and item:
            yield f"{_yaml_scalar(key)}:"
            yield from (f"  - {_yaml_scalar(each)}" for each in item)
        else:
            yield f"{_yaml_scalar(key)}: {_yaml_scalar(item)}"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and _YAML_PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    text = json.dumps(value, ensure_ascii=False)  # JSON is YAML, apart from what is not printable
    return text if text.isprintable() else json.dumps(value)
