"""The values of a policy: authentication, access rules, limits, audit and telemetry; and those of tasks.

    policy = Policy(
        rules=[
            Rule(allow=["search_*", "tag:read-only"]),
            Rule(allow=["refund"], who=["role:support"], when={"amount": {"at_most": 100}}),
            Rule(confirm=["tag:destructive"]),
        ],
        roles={"support": ["key:ana", "oauth:*@example.com"]},
        limits=[Limit(rate="60/min", per="principal"), Limit(tools=["report"], concurrency=2)],
        audit=Audit("audit.db"),
    )
    server = MCPServer("shop", policy=policy)

`toolcrib.toml` is read into the same values, with the same keys: `[[rules]]`, `[roles]`, `[audit]` and so on;
`default` and `local_scopes` are below `[policy]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from toolcrib.config.fields import (
    Settings,
    TableReader,
    find_line,
    names_of,
    parse_toml,
    read_text,
    setting,
    show,
    to_toml,
)
from toolcrib.errors import ConfigurationError

_PERIODS_S = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_RATE = re.compile(r"\s*(\d+)\s*/\s*(\d*)\s*([a-z]+)\s*")
DAY_S = 86_400
MAX_COUNT = 1_000_000_000
SERVER_SECTIONS = [
    "server",
    "http",
    "search",
    "lint",
    "lock",
    "publish",
    "tasks",
    "state",
    "fleet",
    "catalog",
    "log",
    "tools",
]
"""The tables of `toolcrib.toml` that are not part of a policy."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of calls in a number of seconds."""

    count: int
    period_s: float

    @classmethod
    def parse(cls, text: Any) -> Rate:
        """Parse `60/min`, `5/s` or `100/10min`. Raises ValueError."""
        if isinstance(text, Rate):
            return text
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None or found[3] not in _PERIODS_S:
            raise ValueError(f"must be a rate such as '60/min' or '5/s', got {show(text)}")
        count, period_s = int(found[1]), int(found[2] or 1) * _PERIODS_S[found[3]]
        if not 1 <= count <= MAX_COUNT or not 1 <= period_s <= DAY_S:
            raise ValueError(f"must be at least 1 in at most a day, got {show(text)}")
        return cls(count, float(period_s))

    def share(self, parts: int) -> Rate:
        """Return the rate for each of several processes that count separately, rounded up."""
        return Rate(-(-self.count // parts), self.period_s)

    def __str__(self) -> str:
        return f"{self.count} in {self.period_s:g} s"


Effect = Literal["allow", "deny", "confirm"]
EFFECTS: tuple[Effect, ...] = ("allow", "deny", "confirm")


@dataclass(frozen=True, kw_only=True)
class Rule(Settings):
    """An access rule: exactly one of `allow`, `deny` and `confirm`, each a list of tools.

    Tools are names or globs (`refund*`), the same of one kind (`tool:NAME`, `resource:URI`, `prompt:NAME`;
    a selector without a kind is for all of them), `tag:NAME`, `namespace:NAME`, `hint:NAME` (an annotation:
    read-only, destructive, idempotent, open-world; `hint:not-read-only` and so on for tools without it), each
    with globs, and `re:PATTERN`. `who` are principals with globs (`local`, `key:ana`, `oauth:*`) and
    `role:NAME`; empty means everybody. `when` are conditions on arguments, all of which must hold for the
    rule to apply. `because` is the reason shown with a denied call and by `toolcrib explain`.
    """

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    confirm: Sequence[str] = ()
    who: Sequence[str] = ()
    when: Mapping[str, Any] = setting({})
    because: str | None = None
    name: str | None = None

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        given = [effect for effect in EFFECTS if getattr(self, effect)]
        if len(given) != 1:
            yield ConfigurationError(
                f"a rule has exactly one of allow, deny and confirm, got {' and '.join(given) or 'none'}",
                hint='write allow=["..."], deny=["..."] or confirm=["..."]',
            )

    @property
    def effect(self) -> Effect:
        return next(effect for effect in EFFECTS if getattr(self, effect))

    @property
    def tools(self) -> Sequence[str]:
        tools: Sequence[str] = getattr(self, self.effect)
        return tools


PER = ("all", "principal", "tool", "tag")
_PER = {
    "regex": rf"(?:{'|'.join(PER)})(?:\+(?:{'|'.join(PER)}))*",
    "expected": f"one of {', '.join(PER)}, or several joined with +",
}
_AMOUNTS = ("rate", "concurrency", "daily", "timeout_s", "max_arguments_bytes", "max_result_bytes")


@dataclass(frozen=True, kw_only=True)
class Limit(Settings):
    """Limits for calls of some `tools` by some principals (`who`), both as in a `Rule`.

    `per` says which calls share a counter: "all" of them, or those of each "principal", each "tool", each
    "tag" of the tool; or several joined ("principal+tool"). `rate` is kept evenly after a first `burst` (by
    default the count of the rate). `concurrency` calls run at once. `daily` is a budget that starts again at
    midnight UTC. `timeout_s`, `max_arguments_bytes` and `max_result_bytes` apply to each call.
    """

    tools: Sequence[str] = ("*",)
    who: Sequence[str] = ()
    per: str = setting("principal", **_PER)
    rate: str | Rate | None = setting(None, convert=Rate.parse)
    burst: int | None = setting(None, least=1, most=MAX_COUNT)
    concurrency: int | None = setting(None, least=1, most=MAX_COUNT)
    daily: int | None = setting(None, least=1, most=MAX_COUNT)
    timeout_s: float | None = setting(None, least=0.001, most=3600)
    max_arguments_bytes: int | None = setting(None, least=1, most=MAX_COUNT)
    max_result_bytes: int | None = setting(None, least=1, most=MAX_COUNT)
    name: str | None = None

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        if not self.tools:
            yield ConfigurationError("must name at least one tool", key="tools", hint='write ["*"] for all')
        if self.burst is not None and self.rate is None:
            yield ConfigurationError("burst requires rate", key="burst")
        if all(getattr(self, key) is None for key in _AMOUNTS):
            yield ConfigurationError(f"a limit needs at least one of {', '.join(_AMOUNTS)}")


SIGNING_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
_URL = {
    "regex": r"https://[^\s/?#]+[^\s?#]*|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s?#]*)?",
    "expected": "an https:// URL, or an http:// URL of a loopback address",
}
_LABEL = {
    "regex": r"(?!(?:key|local|anonymous|role)$)[a-z][a-z0-9_-]*",
    "expected": "a short lower-case word other than key, local, anonymous and role",
}


@dataclass(frozen=True, kw_only=True)
class OAuth(Settings):
    """An authorization server whose tokens are accepted. Its users are named `{label}:SUBJECT`.

    `resource` is the URL of this server, which must be the audience of tokens; by default the address it is
    bound to. `jwks_uri` is by default taken from the issuer's metadata. `scopes` are requested from clients
    that come without a token. Roles are read from the claim `role_claim`.
    """

    issuer: str = setting(**_URL)
    resource: str | None = setting(None, **_URL)
    label: str = setting("oauth", **_LABEL)
    jwks_uri: str | None = setting(None, **_URL)
    scopes: Sequence[str] = ()
    algorithms: Sequence[str] = SIGNING_ALGORITHMS
    role_claim: str | None = None
    leeway_s: float = setting(30.0, least=0, most=300)

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        for name in self.algorithms:
            if name == "none" or name.startswith("HS"):
                yield ConfigurationError(f"{name} does not prove who signed a token", key="algorithms")
            elif name not in SIGNING_ALGORITHMS:
                hint = f"known: {', '.join(SIGNING_ALGORITHMS)}"
                yield ConfigurationError(f"unknown algorithm {name!r}", key="algorithms", hint=hint)
        if not self.algorithms:
            yield ConfigurationError("must name at least one algorithm", key="algorithms")


@dataclass(frozen=True, kw_only=True)
class Auth(Settings):
    """Authentication of callers over HTTP. `keys` is the file of `toolcrib keys`, or "state" for keys in the
    database of `[state] url`.

    With `optional`, a caller without credentials is the principal `anonymous`; wrong credentials are refused
    all the same. `max_failures` is the rate of failed attempts per address, `requests` the rate of requests
    per caller; requests above a rate get HTTP 429.
    """

    keys: Path | str | None = setting(None, word="state")
    oauth: Sequence[OAuth] = ()
    optional: bool = False
    max_failures: str | Rate = setting("30/min", convert=Rate.parse)
    requests: str | Rate | None = setting(None, convert=Rate.parse)

    @property
    def keys_in_state(self) -> bool:
        return str(self.keys) == "state"

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        if self.keys is None and not self.oauth:
            hint = 'write keys="toolcrib.keys.json", and create keys with `toolcrib keys create`'
            yield ConfigurationError("needs keys or an authorization server", hint=hint)
        labels = [server.label for server in self.oauth]
        for number, label in enumerate(labels):
            if label in labels[:number]:
                text = f"two authorization servers have the label {label!r}"
                key = f"oauth[{number + 1}].label"
                yield ConfigurationError(text, key=key, hint="change one of the labels")


@dataclass(frozen=True)
class Audit(Settings):
    """The audit log: a record of every call in a SQLite file.

    `key_file` holds the key of digests and checkpoints; by default it is created beside the file, and so are
    the `checkpoints`. Keep both elsewhere: with all three, history can be rewritten. `values` are
    globs of argument names whose values are recorded, all others are recorded as digests; `redact` are globs
    of names and `re:` patterns whose values never are, besides the well-known ones. `wait_s` is how long a
    reply waits for its record to be written; then it is sent anyway, except for tools that require a record
    (`audit="required"`, or destructive). `sync` waits for the disk too, which survives a power cut and costs
    speed. `keep_days` and `keep_records` remove old records.
    """

    file: Path | str = setting(example='file = "audit.db"')
    _: KW_ONLY
    key_file: Path | str | None = None
    checkpoints: Path | str | None = None
    values: Sequence[str] = ()
    redact: Sequence[str] = ()
    wait_s: float = setting(2.0, least=0.01, most=60)
    sync: bool = False
    keep_days: int | None = setting(None, least=1, most=36_500)
    keep_records: int | None = setting(None, least=1_000, most=MAX_COUNT)

    @property
    def removes_records(self) -> bool:
        return self.keep_days is not None or self.keep_records is not None


@dataclass(frozen=True, kw_only=True)
class Tasks(Settings):
    """Calls that go on after they were answered, for tools with the option `task`.

    They are kept in the state of the server (`[state] url`), which all its processes share. A tool with
    `task="when-long"` may take `wait_s` before its call becomes a task. A task is kept for `ttl_s`
    from its creation, and clients are told to ask for it every `poll_s`. `timeout_s` is the deadline of a
    tool without its own. While `max_open` tasks are open, or `max_open_per_principal` of one caller,
    further calls do not become tasks. Where the results of ended tasks exceed `max_kept_bytes`, the
    oldest expire early, those of the caller whose task has ended first.
    """

    wait_s: float = setting(2.0, least=0, most=60)
    ttl_s: float = setting(3600.0, least=1, most=30 * DAY_S)
    poll_s: float = setting(1.0, least=0.05, most=60)
    timeout_s: float = setting(3600.0, least=0.001, most=3600)
    max_open: int = setting(1_000, least=1, most=1_000_000)
    max_open_per_principal: int = setting(100, least=1, most=1_000_000)
    max_kept_bytes: int = setting(2**30, least=100_000, most=2**40)


_OUTAGE = Literal["deny", "local", "allow"]
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")


def _check_reference(value: Any) -> str:
    """Return a reference. Raise ValueError for anything else, without the value: it may be the secret."""
    if not isinstance(value, str) or not _REFERENCE.fullmatch(value):
        raise ValueError("must be a reference such as 'env:NAME' or 'file:PATH', and not the URL itself")
    return value


@dataclass(frozen=True, kw_only=True)
class Outage(Settings):
    """What a replica does while a shared server is away.

    `rate`, `budget` and `concurrency` are about Redis, which counts calls: "local" counts this replica's
    share of a limit, "deny" refuses calls that have such a limit, "allow" does not count.
    """

    rate: _OUTAGE = "local"
    budget: _OUTAGE = "local"
    concurrency: _OUTAGE = "local"


@dataclass(frozen=True, kw_only=True)
class Fleet(Settings):
    """Replicas on many machines that share PostgreSQL (tasks, keys, values, audit records) and Redis (counts
    and notices).

    `postgres` and `redis` say where the URL of each is: `env:NAME` is a variable, `file:PATH` a file. `name`
    begins all keys in Redis; `db_schema` is that of the tables. `key_file` has the secrets that encrypt what
    is shared, one to a line: the first is current, the others still open what they sealed. A call waits for
    Redis for at most `call_timeout_ms`.
    """

    postgres: str = setting(convert=_check_reference)
    redis: str = setting(convert=_check_reference)
    key_file: Path | str
    name: str = setting("toolcrib", regex=r"[a-z][a-z0-9_-]{0,31}", expected="a short name in lower case")
    db_schema: str = setting(
        "toolcrib", regex=r"[a-z_][a-z0-9_]{0,62}", expected="the name of a schema", key="schema"
    )
    call_timeout_ms: int = setting(50, least=5, most=10_000)
    outage: Outage = Outage()


METRICS_SCOPE = "metrics:read"
_METRICS_PATH = {"regex": r"/[A-Za-z0-9._~/-]*", "expected": "a path such as '/metrics'"}
_SCOPE = {"regex": r"[\x21\x23-\x5b\x5d-\x7e]+", "expected": f"one scope such as '{METRICS_SCOPE}'"}


@dataclass(frozen=True, kw_only=True)
class Telemetry(Settings):
    """Metrics and traces: `prometheus` serves metrics at `metrics_path`, `opentelemetry` reports spans and
    metrics to the OpenTelemetry SDK of the process. Neither contains arguments or results.

    With `auth`, reading metrics needs the scope `metrics_scope`, because they name tools that not everybody
    may see; `metrics_open` lets everybody read them.
    """

    prometheus: bool = False
    metrics_path: str = setting("/metrics", **_METRICS_PATH)
    metrics_open: bool = False
    metrics_scope: str = setting(METRICS_SCOPE, **_SCOPE)
    opentelemetry: bool = False

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        has_scope = self.metrics_scope != METRICS_SCOPE
        for key, is_set in (("metrics_open", self.metrics_open), ("metrics_scope", has_scope)):
            if is_set and not self.prometheus:
                hint = "set prometheus=True, or remove it"
                yield ConfigurationError("has no effect: prometheus is off", key=key, hint=hint)
        if has_scope and self.metrics_open and self.prometheus:
            text = "has no effect: metrics_open lets everybody read"
            hint = "remove metrics_open or metrics_scope"
            yield ConfigurationError(text, key="metrics_scope", hint=hint)


@dataclass(frozen=True, kw_only=True)
class Policy(Settings):
    """Authentication, access rules, limits, audit and telemetry. Parts that are not set have no overhead.

    `default` applies to calls that no rule applies to: "deny" as soon as one rule allows something, else
    "allow". `local_scopes` are the scopes of the local user, who has no token ("*": all of them, which is
    also the case without `auth`). `scopes` maps a scope to the tools that need it, besides the scopes that
    tools name themselves. `file` and `lines` locate the keys in `toolcrib.toml`, for error messages.
    """

    default: Literal["allow", "deny"] | None = setting(None, key="policy.default")
    rules: Sequence[Rule] = ()
    roles: Mapping[str, Sequence[str]] = setting({})
    scopes: Mapping[str, Sequence[str]] = setting({})
    limits: Sequence[Limit] = ()
    auth: Auth | None = None
    audit: Audit | None = None
    telemetry: Telemetry | None = None
    local_scopes: Sequence[str] = setting((), key="policy.local_scopes")
    file: str | None = setting(None, key=None)
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, metadata={"key": None})

    @classmethod
    def load(cls, file: str | Path) -> Policy:
        """Return the policy of a `toolcrib.toml`, with the same meaning as for `toolcrib serve`.

        Raise ConfigurationError with all problems, also where the file has no policy.
        """
        text = read_text(Path(file))
        document, reader, own = parse_toml(text, str(file)), TableReader(text, Path(file)), names_of(cls)
        reader.check_names("", document, dict.fromkeys([*SERVER_SECTIONS, *own]))
        policy = reader.finish(reader.read(cls, document, file=reader.file, lines=reader.lines))
        if document.keys().isdisjoint(own):
            raise ConfigurationError("has no policy", file=str(file), hint="write [[rules]] or [auth] in it")
        return policy

    def find_conflicts(self) -> Iterator[ConfigurationError]:
        number = next((number for number, rule in enumerate(self.rules, start=1) if rule.allow), None)
        if self.default == "allow" and number is not None:
            hint = f'remove {"policy.default" if self.file else "default"}, or set it to "deny"'
            yield self.error_at(f"rules[{number}]", "has no effect: the default is to allow", hint)

    @property
    def denies_by_default(self) -> bool:
        return self.default == "deny" or (self.default is None and any(rule.allow for rule in self.rules))

    def error_at(self, key: str, problem: str, hint: str | None = None) -> ConfigurationError:
        """Return an error about a key, with the line of the key or of the table that holds it.

        The hint is in Python, and translated where the policy was read from a file.
        """
        if self.file is None:
            return ConfigurationError(problem, key=key.removeprefix("policy."), hint=hint)
        line = find_line(self.lines, key)
        return ConfigurationError(problem, file=self.file, key=key, line=line, hint=hint and to_toml(hint))

    def error_from(self, key: str, error: ConfigurationError) -> ConfigurationError:
        """Return an error about a key, or about the file that it names, with the line of the key."""
        problem = error.message if error.file is None else f"{error.file}: {error.message}"
        return self.error_at(error.key or key, problem, error.hint)
