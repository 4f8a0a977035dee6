"""Exceptions, and findings about tool definitions.

    ToolcribError
    ├── DefinitionError (ValueError)             a problem with a tool, before any call
    │   ├── InvalidToolError (TypeError)         not shaped like a tool: attribute missing or of a wrong type
    │   ├── InvalidNameError                     a name that breaks the name rule
    │   ├── InvalidSignatureError                a signature that cannot be a tool
    │   ├── InvalidSchemaError                   a schema that is invalid or too costly
    │   ├── ToolAlreadyExistsError               name and version are taken
    │   ├── SourceError                          a file, module or object that tools cannot be read from
    │   ├── DriftError                           a tool differs from the lock file
    │   └── BatchError                           a strict batch was refused; has the findings
    ├── RegistrationClosedError (RuntimeError)   the registry is sealed or shutting down
    ├── ConfigurationError (ValueError)          a setting is wrong; has file, line and key
    │   └── BindError                            a server cannot listen on its address
    ├── ToolNotFoundError (ValueError, LookupError)   no such tool: a protocol error on the wire
    ├── ClientError                              a call of another MCP server failed
    │   ├── TransportError (ConnectionError)          no connection, or it was refused or lost
    │   ├── ResponseTimeoutError (TimeoutError)         no answer in time
    │   ├── InvalidResponseError                       the answer is not MCP
    │   ├── RemoteError                          the answer is a JSON-RPC error
    │   └── TaskCancelledError                   the task of a call was cancelled
    ├── AgentError                               a model gave no answer; `kind` says why
    └── CallError                                a call failed; becomes an `isError` result
        ├── ToolError                            raised by a tool; its text is shown as it is
        │   ├── APIError                         an HTTP API returned an error
        │   ├── NotFoundError                    there is nothing under a URI that fits a template
        │   └── RelayedError                     another server answered with a JSON-RPC error
        ├── FileUnavailableError (OSError)       a file of a resource is missing, or outside its folder
        │   └── FileTooLargeError                a file of a resource is larger than its limit
        ├── InvalidArgumentsError                arguments do not fit the published schema
        ├── InvalidResultError                   the result does not fit the output schema
        ├── ToolTimeoutError (TimeoutError)      the deadline passed
        ├── ToolBusyError                        too many calls are running
        ├── ToolCrashedError                     the tool raised; the message is hidden
        ├── CannotAskError                       no client can answer `ctx.ask`
        ├── ContextError (ValueError)            the tool uses its Context in a way that is not possible
        └── PolicyError                          the policy refuses; `details` has what would help
            ├── DeniedError                      a rule denies the call
            ├── InsufficientScopeError           a scope is missing
            ├── ThrottledError                   a rate, concurrency or daily limit is reached
            ├── NotConfirmedError                the user did not confirm
            └── AuditUnavailableError            the call cannot be recorded, and must be

Types and their `code` are public; messages may change, except where a requirement fixes them.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

Level = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True)
class Location:
    """A file and a line."""

    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return "<unknown>"
        return f"{self.file}:{self.line}" if self.line else self.file


NO_LOCATION = Location()


MAX_WORD = 1_000
_LONG_WORD = re.compile(rf"\S{{{MAX_WORD + 1},}}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with a definition, or advice. `code` is stable; the message may change. `excerpt` is the line
    of a syntax error, and below it a mark at the place."""

    code: str
    level: Level
    message: str
    tool: str | None = None
    parameter: str | None = None
    file: str | None = None
    line: int | None = None
    hint: str | None = None
    excerpt: str | None = None

    @property
    def where(self) -> Location:
        return Location(self.file, self.line)

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        if self.excerpt is None:
            del fields["excerpt"]
        return fields

    def __str__(self) -> str:
        location = f"{self.where}: " if self.file else ""
        hint = f" (hint: {self.hint})" if self.hint else ""
        return shorten(f"{location}{self.level}[{self.code}] {self.message}{hint}")


def shorten(text: str) -> str:
    """Return a message with a name or another word of more than 1,000 characters cut."""
    if len(text) <= MAX_WORD:
        return text
    return _LONG_WORD.sub(lambda found: f"{found[0][:200]}... ({len(found[0]):,} characters)", text)


def suggest(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return the hint "did you mean 'x'?" for a misspelt name, or `otherwise` if no known name is similar."""
    import difflib  # start-up time

    folded = {item.casefold(): item for item in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return f"did you mean '{folded[close[0]]}'?" if close else otherwise


def missing_attribute(owner: str, name: str, hint: str | None, obj: object) -> AttributeError:
    """Return the error for an attribute that something does not have; the hint says what is used here."""
    text = f"{owner} has no attribute '{name}'"
    return AttributeError(f"{text} ({hint})" if hint else text, name=name, obj=obj)


def check_keywords(
    owner: str, given: Iterable[str], known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Raise TypeError for an unknown keyword argument. `elsewhere` has hints for some of them."""
    for name in given:
        if name not in known:
            hint = (elsewhere or {}).get(name) or suggest(name, known, f"settings: {', '.join(known)}")
            raise TypeError(f"{owner}() got an unexpected keyword argument '{name}' ({hint})")


def suggest_file(missing: str | Path) -> str:
    """Return the hint for a target that does not exist: a similar name in its folder."""
    path = Path(missing)
    try:
        files = [item.stem for item in path.parent.iterdir() if item.suffix == (path.suffix or ".py")]
    except (OSError, ValueError):
        files = []
    hint = suggest(path.stem, files, "give a file, a folder, a module or module:object")
    return hint.replace("'?", f"{path.suffix}'?")


class ToolcribError(Exception):
    """Base class of all exceptions of toolcrib."""

    code: ClassVar[str] = "error"
    _hint: str | None = None

    @property
    def hint(self) -> str | None:
        """What to do, if there is advice. Commands print it, tracebacks show it as a note."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        others = [note for note in getattr(self, "__notes__", ()) if note != f"hint: {self._hint}"]
        self._hint = hint
        self.__notes__ = [f"hint: {hint}", *others] if hint else others

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without calling `__init__`, which takes other arguments than it passes on."""
        return copyreg.__newobj__, (type(self),), {**self.__dict__, "args": self.args}  # type: ignore[attr-defined]


class DefinitionError(ToolcribError, ValueError):
    """A problem with the definition of a tool. `others` are further problems with the same one."""

    code = "invalid-definition"
    others: tuple[DefinitionError, ...] = ()
    excerpt: str | None = None

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        parameter: str | None = None,
        source: Location = NO_LOCATION,
        hint: str | None = None,
    ) -> None:
        message = shorten(message)
        super().__init__(message)
        self.message = message
        self.tool = tool
        self.parameter = parameter
        self.source = source
        self.hint = hint

    def add(self, others: Iterable[DefinitionError]) -> Self:
        """Add further problems with the same definition; a traceback shows them as notes."""
        for other in others:
            self.others += (other,)
            self.add_note(f"Also: {other}" + (f" (hint: {other.hint})" if other.hint else ""))
        return self

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of this error and of the others."""
        return [self.finding, *(finding for other in self.others for finding in other.all_findings)]

    @property
    def finding(self) -> Finding:
        return Finding(
            self.code,
            "error",
            self.message,
            tool=self.tool,
            parameter=self.parameter,
            file=self.source.file,
            line=self.source.line,
            hint=self.hint,
            excerpt=self.excerpt,
        )


class InvalidToolError(DefinitionError, TypeError):
    """Not a tool. Both a ValueError and a TypeError, because callers expect either."""

    code = "invalid-tool"


class InvalidNameError(DefinitionError):
    code = "invalid-name"


class InvalidSignatureError(DefinitionError):
    code = "invalid-signature"


class InvalidSchemaError(DefinitionError):
    code = "invalid-schema"


class ToolAlreadyExistsError(DefinitionError):
    """The name and version are taken; `source` is the location of the new tool, `existing` of the other."""

    code = "duplicate-name"

    def __init__(
        self,
        name: str,
        *,
        message: str | None = None,
        source: Location = NO_LOCATION,
        existing: Location = NO_LOCATION,
    ) -> None:
        hint = (
            f"the first one is at {existing}; rename one, give a namespace or a version"
            if existing.file
            else None
        )
        super().__init__(message or f"Tool '{name}' already registered", tool=name, source=source, hint=hint)
        self.existing = existing


class SourceError(DefinitionError):
    code = "unreadable-source"


class DriftError(DefinitionError):
    """A tool differs from the lock file. Where not `is_fatal`, it is left out and the others are served."""

    code = "drift"

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        source: Location = NO_LOCATION,
        hint: str | None = None,
        is_fatal: bool = True,
    ) -> None:
        super().__init__(message, tool=tool, source=source, hint=hint)
        self.is_fatal = is_fatal

    @property
    def finding(self) -> Finding:
        finding = super().finding
        return finding if self.is_fatal else replace(finding, level="advice")  # also logged as a warning


class BatchError(DefinitionError):
    """A strict batch was refused; `findings` has the reasons."""

    code = "batch-refused"

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


class RegistrationClosedError(ToolcribError, RuntimeError):
    code = "registration-closed"


class ConfigurationError(ToolcribError, ValueError):
    code = "invalid-configuration"

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        key: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        message = shorten(message)
        location = f"{file}:{line}" if file and line else file
        where = ": ".join(part for part in (location, key) if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.file = file
        self.key = key
        self.line = line
        self.hint = hint
        self.others: tuple[ConfigurationError, ...] = ()
        """Other problems that were found at the same time."""


class BindError(ConfigurationError):
    """An address that a server cannot listen on."""

    code = "cannot-bind"


class ErrorCollector:
    """Collects the problems of settings, to report them together."""

    def __init__(self) -> None:
        self._found: list[ConfigurationError] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the error that the block raises, and continue after it."""
        try:
            yield
        except ConfigurationError as error:
            self.add(error)

    def add(self, error: ConfigurationError) -> None:
        self._found += (error, *error.others)
        error.others = ()

    def raise_errors(self) -> None:
        """Raise the first error with the others attached, ordered by line."""
        if self._found:
            first, *others = sorted(self._found, key=lambda error: error.line or 0)
            first.others = tuple(others)
            raise first


class ToolNotFoundError(ToolcribError, ValueError, LookupError):
    """The tool, resource or prompt does not exist, or the principal may not use it. The message never reveals
    other names."""

    code = "unknown-tool"

    def __init__(self, name: str, kind: str = "tool") -> None:
        super().__init__(shorten(f"Unknown {kind}: {name}"))
        self.name = name


class ClientError(ToolcribError):
    """A call of another MCP server failed."""

    code = "client-failed"


class TransportError(ClientError, ConnectionError):
    """No connection, or it was refused or lost. `status` is the HTTP status."""

    code = "no-link"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ResponseTimeoutError(ClientError, TimeoutError):
    code = "no-answer"


class InvalidResponseError(ClientError):
    code = "bad-answer"


class RemoteError(ClientError):
    """The server answered with a JSON-RPC error."""

    code = "remote-error"

    def __init__(self, message: str, *, rpc_code: int, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.rpc_code = rpc_code
        self.data = data


class TaskCancelledError(ClientError):
    """A call that became a task was cancelled, by this client or by the server."""

    code = "task-cancelled"


class AgentError(ToolcribError):
    """A model gave no answer. `kind` is "access", "busy", "crashed", "cut", "died", "failed", "garbled",
    "limit", "missing", "refused", "stalled" or "unreachable"."""

    code = "agent-failed"

    def __init__(self, message: str, *, kind: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


class CallError(ToolcribError):
    """A call failed; the message is shown to the caller. `details` is structured data."""

    code = "call-failed"

    def __init__(self, message: str, *, details: Any = None) -> None:
        super().__init__(message)
        self.details = details


class ToolError(CallError):
    """Raise this in a tool to show the model a message."""

    code = "tool-error"


class NotFoundError(ToolError):
    """Raise this in a resource whose URI fits, but under which there is nothing."""

    code = "not-found"


class RelayedError(ToolError):
    """Another server answered a request with a JSON-RPC error, which clients get as it is where theirs can
    fail that way. `is_crash` says that the message may be that of an exception."""

    code = "relayed-error"

    def __init__(self, message: str, *, rpc_code: int, data: Any = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data
        self.is_crash = False


class APIError(ToolError):
    """An HTTP API returned an error. `reached` is False where there was no connection, so that the request
    had no effect."""

    code = "api-error"

    def __init__(
        self, message: str, *, status: int | None = None, body: str | None = None, reached: bool = True
    ) -> None:
        super().__init__(message, details=None if status is None else {"status": status})
        self.status = status
        self.body = body
        self.reached = reached


class FileUnavailableError(CallError, OSError):
    """A file of a resource is missing, outside its folder, or not a regular file. No message has an absolute
    path."""

    code = "file-unavailable"


class FileTooLargeError(FileUnavailableError):
    code = "file-too-large"


class InvalidArgumentsError(CallError):
    """`details` is a list of problems: field, expected, got, hint."""

    code = "invalid-arguments"


class InvalidResultError(CallError):
    code = "invalid-result"


class ToolTimeoutError(CallError, TimeoutError):
    code = "timeout"


class ToolBusyError(CallError):
    code = "busy"


class ToolCrashedError(CallError):
    code = "crashed"


class CannotAskError(CallError):
    code = "cannot-ask"


class ContextError(CallError, ValueError):
    """A mistake of the tool's author, told to the caller because it is about the client, not about data."""

    code = "context-misused"


class PolicyError(CallError):
    """The policy refuses a call. Clients get `code` and `details` with the message."""

    code = "refused"


class DeniedError(PolicyError):
    code = "denied"


class InsufficientScopeError(PolicyError):
    """`details` has the missing `scopes`."""

    code = "insufficient-scope"


class ThrottledError(PolicyError):
    """`details` has `limit`, the name of the limit, and `retryAfterS` where waiting helps."""

    code = "throttled"


class NotConfirmedError(PolicyError):
    code = "not-confirmed"


class AuditUnavailableError(PolicyError):
    code = "audit-unavailable"
