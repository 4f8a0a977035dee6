"""Add, replace and remove a server in the configuration file of a client.

The file is plain JSON or TOML. Its servers are the members of one object, the container. A file that cannot
be edited without losing something (JSON with comments, YAML) is left alone; the error has the entry to paste.

An existing file is backed up once before the first change, and replaced atomically with its mode, owner, byte
order mark, indentation and line ends; a link is followed to its file. A change by another program in between
is detected.
"""

from __future__ import annotations

import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from toolcrib.config.atomic_file import PRIVATE, create_file, replace_file
from toolcrib.config.fields import parse_toml
from toolcrib.errors import ConfigurationError

_BOM = b"\xef\xbb\xbf"
COMMAND_KEYS = ("command", "cmd")
ENV_KEYS = ("env", "envs")
HEADER_KEYS = ("headers", "http_headers")
URL_KEYS = ("url", "httpUrl", "serverUrl", "uri")
"""The names that clients have for the parts of an entry."""
# The keys that say how to reach a server; the others (timeouts, trust, switches) belong to the user.
_TRANSPORT = ("type", *COMMAND_KEYS, "args", *ENV_KEYS, *URL_KEYS)

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
    by_hand = f"add this {editor.place} by hand:\n{editor.show(name, entry)}".rstrip()
    with _errors(file, by_hand):
        content = read(file)
        servers = editor.servers(content.text)
        existing = servers.get(name)
        if name in servers and _is_same(existing, entry):
            return Outcome("already-connected", existing)
        if name in servers and not force:
            return Outcome("different", existing)
        text = editor.change(content.text, name, _merge(existing, entry))
        return Outcome("replaced" if name in servers else "connected", existing, write(content, text, mode))


def disconnect(editor: Editor, file: Path, name: str, is_ours: Callable[[Any], bool]) -> Outcome:
    """Remove an entry, if it is ours."""
    with _errors(file, f"remove '{name}' {editor.place} by hand"):
        content = read(file)
        servers = editor.servers(content.text)
        if name not in servers:
            return Outcome("not-connected")
        existing = servers[name]
        if not is_ours(existing):
            return Outcome("foreign", existing)
        text = editor.change(content.text, name, None)
        return Outcome("removed", existing, write(content, text, PRIVATE))


def list_servers(editor: Editor, file: Path) -> dict[str, Any]:
    """Return every entry of a file by its name. Raises ConfigurationError."""
    with _errors(file):
        return editor.servers(read(file).text)


def _is_same(existing: Any, entry: Mapping[str, Any]) -> bool:
    """Return whether two entries reach the same server; an empty environment is none. Headers are compared
    if the new entry has some; otherwise the user's are kept."""
    if not isinstance(existing, Mapping):
        return False
    compared = {*_TRANSPORT, *entry}

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
    kept = {key: value for key, value in existing.items() if key not in {*_TRANSPORT, *entry}}
    return {**entry, **kept}


def _starts_program(entry: Mapping[str, Any]) -> bool:
    return any(key in entry for key in COMMAND_KEYS)


@contextmanager
def _errors(file: Path, hint: str = "fix the file") -> Iterator[None]:
    """Add the file to errors of its text, and what to do instead of editing it."""
    try:
        yield
    except ConfigurationError as error:
        if error.file is not None:
            raise
        raise ConfigurationError(error.message, file=str(file), line=error.line, hint=hint) from None


# --- the file ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file when it was read; `data` is None if there was none. `path` is not a link."""

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
    """Replace a file; return the backup, if one was made now.

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


@dataclass(frozen=True, slots=True)
class Editor(ABC):
    """Edits the servers in a text. Errors are ConfigurationErrors with a line and without a file."""

    container: str
    is_writable: ClassVar[bool] = True

    @property
    def place(self) -> str:
        return f"below '{self.container}'"

    @abstractmethod
    def parse(self, text: str) -> dict[str, Any]: ...

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        """Return a document with one entry, ready to paste."""
        return self.change("", name, entry)

    @abstractmethod
    def change(self, text: str, name: str, entry: Mapping[str, Any] | None) -> str:
        """Return the text with this entry, or without it; everything else stays."""

    def servers(self, text: str) -> dict[str, Any]:
        """Return the entries in a text by their names."""
        servers = self.parse(text).get(self.container, {})
        if not isinstance(servers, dict):
            line = text.count("\n", 0, text.find(self.container)) + 1
            raise ConfigurationError(f'"{self.container}" must hold named servers', line=line)
        return servers

    def document(self, text: str, name: str, entry: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the document of a text with this entry, or without it."""
        servers = self.servers(text)
        changed = {**servers, name: dict(entry)} if entry is not None else servers
        if entry is None:
            del changed[name]
        return {**self.parse(text), self.container: changed}


@dataclass(frozen=True, slots=True)
class JsonEditor(Editor):
    """Plain JSON, written again with its own indentation."""

    def parse(self, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text, object_pairs_hook=_refuse_duplicates) if text.strip() else {}
        except json.JSONDecodeError as error:
            text = f"not plain JSON: {error.msg[0].lower()}{error.msg[1:]}"
            raise ConfigurationError(text, line=error.lineno) from None
        except RecursionError:
            raise ConfigurationError("nested too deeply") from None
        if not isinstance(value, dict):
            raise ConfigurationError("must be an object", line=1)
        return value

    def change(self, text: str, name: str, entry: Mapping[str, Any] | None) -> str:
        indent = re.search(r'^([ \t]+)"', text, re.MULTILINE)
        document = self.document(text, name, entry)
        new = json.dumps(document, indent=indent[1] if indent else "  ", ensure_ascii=False)
        end = text[len(text.rstrip()) :] if text else "\n"
        return (new.replace("\n", "\r\n") if "\r\n" in text else new) + end


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ConfigurationError("cannot be edited: a key is there twice")
    return found


@dataclass(frozen=True, slots=True)
class TomlEditor(Editor):
    """TOML; tomlkit keeps its comments."""

    def parse(self, text: str) -> dict[str, Any]:
        return parse_toml(text)

    def change(self, text: str, name: str, entry: Mapping[str, Any] | None) -> str:
        import tomlkit  # delayed: only Codex has a TOML file
        from tomlkit.exceptions import TOMLKitError

        intended = self.document(text, name, entry)
        try:
            document = tomlkit.parse(text)
            servers: Any = document.setdefault(self.container, tomlkit.table(is_super_table=True))
            if entry is None:
                del servers[name]
            else:
                servers[name] = dict(entry)
            new = tomlkit.dumps(document)
            if "\r\n" in text:
                new = new.replace("\r\n", "\n").replace("\n", "\r\n")
            if {self.container: {}, **parse_toml(new)} == intended:
                return new
        except (TOMLKitError, ConfigurationError):
            pass  # some documents are beyond tomlkit
        raise ConfigurationError("cannot be edited without losing something else in it")


@dataclass(frozen=True, slots=True)
class YamlEditor(Editor):
    """YAML, which no library writes without losing the comments: the entry is only shown."""

    is_writable: ClassVar[bool] = False

    def parse(self, text: str) -> dict[str, Any]:
        return {self.container: self.change(text, "", None)}

    def show(self, name: str, entry: Mapping[str, Any]) -> str:
        shown = json.dumps(dict(entry), ensure_ascii=False)  # JSON is YAML if all of it is printable
        shown = shown if shown.isprintable() else json.dumps(dict(entry))
        return f"{self.container}:\n  {json.dumps(name)}: {shown}\n"

    def change(self, text: str, name: str, entry: Mapping[str, Any] | None) -> str:  # noqa: ARG002
        raise ConfigurationError("is a YAML file, which is not edited")
