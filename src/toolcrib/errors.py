"""Every exception toolcrib raises, in one tree of three planes.

    ToolcribError
    ├── DefinitionError (ValueError)             a tool is wrong before any call
    │   ├── InvalidToolError (TypeError)         not shaped like a tool: attribute missing or of a wrong type
    │   ├── InvalidNameError                     a name that the rule in force refuses
    │   ├── InvalidSignatureError                a signature that cannot be a tool
    │   ├── InvalidSchemaError                   a schema that is not one, or that is dangerous
    │   ├── ToolAlreadyExistsError               name and version are taken
    │   │   └── ConfusableNameError              the name looks like one that is taken
    │   ├── SourceError                          a file, module or object that tools cannot be read from
    │   ├── DriftError                           a tool is not what the lock file says
    │   └── BatchError                           a strict batch was refused; carries the report
    ├── RegistrationClosedError (RuntimeError)   the registry is sealed or shutting down
    ├── ConfigurationError (ValueError)          a setting is wrong; names file and key
    ├── ToolNotFoundError (ValueError, LookupError)   no such tool: a protocol error on the wire
    ├── ClientError                              talking to another MCP server failed
    │   ├── TransportError (ConnectionError)          nothing answers there, it refused, or it went away
    │   ├── ResponseTimeoutError (TimeoutError)         it did not answer in time
    │   ├── InvalidResponseError                       it answered with what is not MCP
    │   └── RemoteError                          it answered with a JSON-RPC error
    ├── AgentError                               a model gave no answer; `kind` says why
    └── CallError                                a call failed; becomes an `isError` result
        ├── ToolError                            raised by an author: its text is shown as written
        │   └── APIError                         an HTTP API answered with an error
        ├── InvalidArgumentsError                arguments do not fit the published schema
        ├── InvalidResultError                   the tool returned what it must not return
        ├── ToolTimeoutError (TimeoutError)      the deadline passed
        ├── ToolBusyError                        no slot is free
        ├── ToolCrashedError                     the tool raised; the text is hidden
        ├── CannotAskError                       nobody is there to answer `ctx.ask`
        └── PolicyError                          the policy refuses; `details` says what would help
            ├── DeniedError                      a rule refuses these arguments
            ├── InsufficientScopeError           the caller's token or key lacks a scope
            ├── ThrottledError                   too often, too many at once, or the budget is spent
            ├── NotConfirmedError                somebody had to agree, and did not
            └── AuditUnavailableError            it cannot be recorded, and must be

Types and their `code` are public; the words of messages may change, except where a document fixes them.

What a check has to say about a definition: a code, where, what and how to mend it.

Knows nothing of tools or schemas; everything that inspects something speaks in findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

Level = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True)
class Location:
    """Where something was written."""

    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return "<unknown>"
        return f"{self.file}:{self.line}" if self.line else self.file


NO_LOCATION = Location()


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark about one definition. `code` is stable; the words may change."""

    code: str
    level: Level
    message: str
    tool: str | None = None
    parameter: str | None = None
    file: str | None = None
    line: int | None = None
    hint: str | None = None

    @property
    def where(self) -> Location:
        return Location(self.file, self.line)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.file else ""
        hint = f" (hint: {self.hint})" if self.hint else ""
        return f"{place}{self.level}[{self.code}] {self.message}{hint}"


class ToolcribError(Exception):
    """The root: `except ToolcribError` catches everything toolcrib raises by itself."""

    code: ClassVar[str] = "error"


class DefinitionError(ToolcribError, ValueError):
    """Something is wrong with a tool before any call."""

    code = "invalid-definition"

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        parameter: str | None = None,
        source: Location = NO_LOCATION,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.tool = tool
        self.parameter = parameter
        self.source = source
        self.hint = hint

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
        )


class InvalidToolError(DefinitionError, TypeError):
    """Not shaped like a tool. Both ValueError and TypeError, as callers expect either."""

    code = "invalid-tool"


class InvalidNameError(DefinitionError):
    code = "invalid-name"


class InvalidSignatureError(DefinitionError):
    code = "invalid-signature"


class InvalidSchemaError(DefinitionError):
    code = "invalid-schema"


class ToolAlreadyExistsError(DefinitionError):
    """Two tools of one name and version; `source` is the newcomer's, `existing` the holder's."""

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


class ConfusableNameError(ToolAlreadyExistsError):
    code = "confusable-name"


class SourceError(DefinitionError):
    code = "unreadable-source"


class DriftError(DefinitionError):
    """A tool is not what the lock file says. Not `is_fatal`: it is left out, and the rest goes on."""

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
        return finding if self.is_fatal else replace(finding, level="advice")  # the log has a warning


class BatchError(DefinitionError):
    """A strict batch was refused whole; `findings` says why."""

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
        place = f"{file}:{line}" if file and line else file
        where = ": ".join(part for part in (place, key) if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.file = file
        self.key = key
        self.line = line
        self.hint = hint
        self.others: tuple[ConfigurationError, ...] = ()
        """What else is wrong there, where more was looked at."""


class ErrorCollector:
    """Everything that is wrong with settings, gathered to be told at once."""

    def __init__(self) -> None:
        self._found: list[ConfigurationError] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the error that is raised here, and go on behind it."""
        try:
            yield
        except ConfigurationError as error:
            self.add(error)

    def add(self, error: ConfigurationError) -> None:
        self._found += (error, *error.others)
        error.others = ()

    def raise_errors(self) -> None:
        """Raise the first of all there are, with the others: in the order of their lines, where they have
        any."""
        if self._found:
            first, *others = sorted(self._found, key=lambda error: error.line or 0)
            first.others = tuple(others)
            raise first


class ToolNotFoundError(ToolcribError, ValueError, LookupError):
    """No such tool, or not for this caller. Never says which others exist."""

    code = "unknown-tool"

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown tool: {name}")
        self.name = name


class ClientError(ToolcribError):
    """Talking to another MCP server failed."""

    code = "client-failed"


class TransportError(ClientError, ConnectionError):
    """Nothing answers there, it refused before MCP was spoken, or it went away. `status` is HTTP's."""

    code = "no-link"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ResponseTimeoutError(ClientError, TimeoutError):
    code = "no-answer"


class InvalidResponseError(ClientError):
    code = "bad-answer"


class RemoteError(ClientError):
    """A server answered with a JSON-RPC error, in its own words."""

    code = "remote-error"

    def __init__(self, message: str, *, rpc_code: int, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.rpc_code = rpc_code
        self.data = data


class AgentError(ToolcribError):
    """A model gave no answer. `kind` is one word: "access", "busy", "crashed", "cut", "died", "failed",
    "garbled", "limit", "missing", "refused", "stalled", "unreachable"."""

    code = "agent-failed"

    def __init__(self, message: str, *, kind: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


class CallError(ToolcribError):
    """A call failed in a way the caller may read. `details` is for machines."""

    code = "call-failed"

    def __init__(self, message: str, *, details: Any = None) -> None:
        super().__init__(message)
        self.details = details


class ToolError(CallError):
    """Raise this in a tool to tell the model what went wrong, in these very words."""

    code = "tool-error"


class APIError(ToolError):
    """An HTTP API refused: carries its status and its own words. `reached` is False where no connection came
    about, so that the request cannot have had any effect."""

    code = "api-error"

    def __init__(
        self, message: str, *, status: int | None = None, body: str | None = None, reached: bool = True
    ) -> None:
        super().__init__(message, details=None if status is None else {"status": status})
        self.status = status
        self.body = body
        self.reached = reached


class InvalidArgumentsError(CallError):
    """`details` lists the problems: field, expected, got, hint."""

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


class PolicyError(CallError):
    """The policy refuses a call. Clients get `code` and `details` beside the words."""

    code = "refused"


class DeniedError(PolicyError):
    code = "denied"


class InsufficientScopeError(PolicyError):
    """`details` has `scopes`, those that are needed and not held."""

    code = "insufficient-scope"


class ThrottledError(PolicyError):
    """`details` has `retryAfterS` where waiting helps, and `limit`, the name of what was hit."""

    code = "throttled"


class NotConfirmedError(PolicyError):
    code = "not-confirmed"


class AuditUnavailableError(PolicyError):
    code = "audit-unavailable"
