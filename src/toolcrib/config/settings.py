"""What is demanded of calls, written down: who callers are, what they may do, how much, and what is recorded.

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

`toolcrib.toml` is read into the same values, so code and file say the same things in the same words. Knows
what can be demanded and which demands make no sense; refuses to know how any of it is done.

So many in so many seconds, as people write it: `60/min`, `5/s`, `100/10min`.

Knows words and numbers; refuses to know what is counted, and how.

The fields of one value of settings, looked at one by one, so that whatever is wrong is told at once.

Knows texts, switches, numbers and rates; refuses to know what a field is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from toolcrib.errors import ConfigurationError, ErrorCollector

_PERIODS_S = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_RATE = re.compile(r"\s*(\d+)\s*/\s*(\d*)\s*([a-z]+)\s*")
DAY_S = 86_400
MAX_COUNT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in so many seconds."""

    count: int
    period_s: float

    @classmethod
    def read(cls, text: Any) -> Rate:
        """`60/min`, `5/s`, `100/10min`. Raises ValueError."""
        if isinstance(text, Rate):
            return text
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None or found[3] not in _PERIODS_S:
            raise ValueError(f"must be a rate such as '60/min' or '5/s', got {text!r}")
        count, period_s = int(found[1]), int(found[2] or 1) * _PERIODS_S[found[3]]
        if not 1 <= count <= MAX_COUNT or not 1 <= period_s <= DAY_S:
            raise ValueError(f"must be at least 1 in at most a day, got {text!r}")
        return cls(count, float(period_s))

    def share(self, parts: int) -> Rate:
        """What each of several that count apart may let through: its part, rounded up."""
        return Rate(-(-self.count // parts), self.period_s)

    def __str__(self) -> str:
        return f"{self.count} in {self.period_s:g} s"


class Fields(ErrorCollector):
    """Looks at the fields of a frozen value while it is made. Who has looked at all of them, `tell`s."""

    def __init__(self, holder: object) -> None:
        super().__init__()
        self._holder = holder

    def refuse(self, problem: str, key: str | None = None, hint: str | None = None) -> None:
        self.add(ConfigurationError(problem, key=key, hint=hint))

    def keep(self, key: str, value: Any) -> None:
        object.__setattr__(self._holder, key, value)

    def texts(self, *keys: str) -> None:
        for key in keys:
            with self.collecting():
                self.keep(key, read_texts(key, getattr(self._holder, key)))

    def text(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self._holder, key)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                self.refuse(f"must be a text that is not empty, got {value!r}", key)

    def flag(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self._holder, key)
            if not isinstance(value, bool):  # "no" would be taken for a yes
                self.refuse(f"must be true or false, got {value!r}", key)

    def number(self, key: str, least: float, most: float, *, whole: bool = False) -> None:
        value = getattr(self._holder, key)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            self.refuse(f"must be a {'whole ' * whole}number, got {value!r}", key)
        elif not least <= value <= most:
            self.refuse(f"must be from {least:.12g} to {most:.12g}, got {value!r}", key)

    def rate(self, *keys: str) -> None:
        for key in keys:
            try:
                if (value := getattr(self._holder, key)) is not None:
                    self.keep(key, Rate.read(value))
            except ValueError as error:
                self.refuse(str(error), key)


def read_texts(key: str, value: Any) -> tuple[str, ...]:
    """Raises ConfigurationError."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(f"must be a list of strings, got {value!r}", key=key)
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise ConfigurationError(f"must be a list of strings, but one is {item!r}", key=key)
    return tuple(value)


Effect = Literal["allow", "deny", "confirm"]
EFFECTS: tuple[Effect, ...] = ("allow", "deny", "confirm")
PER = ("all", "principal", "tool", "tag")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: exactly one of `allow`, `deny` and `confirm`, which say what tools it is about.

    Tools are names or globs (`refund*`), `tag:NAME`, `namespace:NAME`, `hint:NAME` (an annotation:
    read-only, destructive, idempotent, open-world; `hint:not-read-only` and so on for tools without it), each
    with globs, and `re:PATTERN`. `who` are names of callers with globs (`local`, `key:ana`, `oauth:*`) and
    `role:NAME`; nobody named, everybody meant. `when` are conditions on arguments, all of which must hold for
    the rule to count. `because` is told to whoever is refused for arguments, and to `toolcrib explain`.
    """

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    confirm: Sequence[str] = ()
    who: Sequence[str] = ()
    when: Mapping[str, Any] = field(default_factory=dict)
    because: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        fields = Fields(self)
        fields.texts(*EFFECTS, "who")
        given = [effect for effect in EFFECTS if getattr(self, effect) != ()]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            hint = 'write allow = ["..."], deny = ["..."] or confirm = ["..."]'
            fields.refuse(f"a rule has one of allow, deny and confirm, got {said}", hint=hint)
        fields.text("because", "name")
        if not isinstance(self.when, Mapping):
            fields.refuse("must be a table of conditions", "when")
        fields.raise_errors()

    @property
    def effect(self) -> Effect:
        return next(effect for effect in EFFECTS if getattr(self, effect))

    @property
    def tools(self) -> Sequence[str]:
        tools: Sequence[str] = getattr(self, self.effect)
        return tools


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How much: any of these, for calls of these `tools` by these callers (`who`); both as in a rule.

    `per` says what shares a count: "all" such calls, each "principal", each "tool", each "tag" of the tool;
    or several of them joined ("principal+tool"). `rate` lets so many through, evenly, after a first `burst`
    (as many as the rate counts where it is not given). `concurrency` run at once; up to `queue` more wait, at
    most `queue_s`. `daily` is a budget that begins anew at midnight UTC. `timeout_s`, `max_arguments_bytes`
    and `max_result_bytes` hold for each call.
    """

    tools: Sequence[str] = ("*",)
    who: Sequence[str] = ()
    per: str = "principal"
    rate: str | Rate | None = None
    burst: int | None = None
    concurrency: int | None = None
    queue: int = 0
    queue_s: float = 10.0
    daily: int | None = None
    timeout_s: float | None = None
    max_arguments_bytes: int | None = None
    max_result_bytes: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        fields = Fields(self)
        fields.texts("tools", "who")
        if self.tools == ():
            fields.refuse("names no tool", "tools", hint='all of them are ["*"]')
        if any(part not in PER for part in str(self.per).split("+")):
            fields.refuse(
                f"must be one of {', '.join(PER)}, or several joined with +, got {self.per!r}", "per"
            )
        fields.rate("rate")
        if self.burst is not None and self.rate is None:
            fields.refuse("is part of a rate, and there is none", "burst")
        if self.queue and self.concurrency is None:
            fields.refuse("waits for concurrency, and there is none", "queue")
        for key in ("burst", "concurrency", "daily", "max_arguments_bytes", "max_result_bytes"):
            fields.number(key, 1, MAX_COUNT, whole=True)
        fields.number("queue", 0, MAX_COUNT, whole=True)
        fields.number("queue_s", 0, 3600)
        fields.number("timeout_s", 0.001, 3600)
        fields.text("name")
        if not any(getattr(self, key) is not None for key in _AMOUNTS):
            fields.refuse(f"limits nothing: it has none of {', '.join(_AMOUNTS)}")
        fields.raise_errors()


_AMOUNTS = ("rate", "concurrency", "daily", "timeout_s", "max_arguments_bytes", "max_result_bytes")


SIGNED_WITH = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""What tokens can be signed with."""


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """Tokens of an authorization server. `label` is what its users' names begin with: `oauth:SUBJECT`.

    `resource` is this server's own address, which tokens must be meant for; without one, the address it is
    bound to. `jwks_uri` is looked up in the issuer's metadata where it is not given. `scopes` are asked for
    when a client comes without a token. Roles are read from the claim `role_claim`.
    """

    issuer: str
    resource: str | None = None
    label: str = "oauth"
    jwks_uri: str | None = None
    scopes: Sequence[str] = ()
    algorithms: Sequence[str] = SIGNED_WITH
    role_claim: str | None = None
    leeway_s: float = 30.0

    def __post_init__(self) -> None:
        fields = Fields(self)
        for key in ("issuer", "resource", "jwks_uri"):
            value = getattr(self, key)
            if value is not None and not (isinstance(value, str) and _URL.fullmatch(value)):
                hint = "plain http is for loopback only"
                fields.refuse(f"must be an https:// address, got {value!r}", key, hint)
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", str(self.label)):
            fields.refuse(f"must be a short lower-case word, got {self.label!r}", "label")
        if self.label in ("key", "local", "anonymous", "role"):
            fields.refuse(f"{self.label!r} means something else already", "label")
        fields.texts("scopes", "algorithms")
        for name in self.algorithms if isinstance(self.algorithms, tuple) else ():
            if name == "none" or str(name).startswith("HS"):
                fields.refuse(f"{name} proves nothing about who signed", "algorithms")
            elif name not in SIGNED_WITH:
                hint = f"known: {', '.join(SIGNED_WITH)}"
                fields.refuse(f"{name!r} is not known", "algorithms", hint)
        if self.algorithms == ():
            fields.refuse("names none, so no token would do", "algorithms")
        fields.text("role_claim")
        fields.number("leeway_s", 0, 300)
        fields.raise_errors()


_URL = re.compile(
    r"https://[^\s/?#]+[^\s?#]*|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s?#]*)?"
)


@dataclass(frozen=True, kw_only=True)
class Auth:
    """How callers over HTTP say who they are. `keys` is the file that `toolcrib keys` keeps.

    With `optional`, whoever shows nothing is the caller `anonymous`; whoever shows something wrong is
    refused all the same. `max_failures` (a rate) is how often one address may show something wrong, and
    `requests` (a rate) how often one caller may come; beyond it, HTTP's 429.
    """

    keys: Path | str | None = None
    oauth: Sequence[OAuth] = ()
    optional: bool = False
    max_failures: str | Rate = "30/min"
    requests: str | Rate | None = None

    def __post_init__(self) -> None:
        fields = Fields(self)
        fields.flag("optional")
        if self.keys is not None:
            fields.keep("keys", Path(self.keys))
        fields.keep("oauth", tuple(self.oauth))
        fields.rate("max_failures", "requests")
        if self.keys is None and not self.oauth:
            hint = 'write keys = "toolcrib.keys.json", and make keys with `toolcrib keys create`'
            fields.refuse("names neither keys nor an authorization server", hint=hint)
        labels = [item.label for item in self.oauth]
        for number, label in enumerate(labels, start=1):
            if label in labels[: number - 1]:
                words = f"two authorization servers with one label, {label!r}"
                fields.refuse(words, f"oauth[{number}].label", hint="give one another label")
        fields.raise_errors()


@dataclass(frozen=True)
class Audit:
    """Where calls are recorded: a SQLite file, or JSON Lines where its name ends in `.jsonl`.

    `key_file` holds the key of digests and checkpoints; it is made beside the file where it is not given, and
    so are the `checkpoints`. Better keep both elsewhere: whoever can write all three can rewrite history.
    `values` are globs of argument names whose values are recorded, in all other cases their digest only;
    `redact` are globs of names and `re:` patterns whose values never are, besides the well-known ones.
    `wait_s` is how long a reply waits for its record; then it goes without, except for tools whose record is
    required (`audit="required"`, or destructive). `keep_days` and `keep_records` end old records.
    """

    file: Path | str
    key_file: Path | str | None = field(default=None, kw_only=True)
    checkpoints: Path | str | None = field(default=None, kw_only=True)
    values: Sequence[str] = field(default=(), kw_only=True)
    redact: Sequence[str] = field(default=(), kw_only=True)
    wait_s: float = field(default=2.0, kw_only=True)
    sync: bool = field(default=False, kw_only=True)
    """Wait until the disk has it, too: survives a loss of power, and costs speed."""
    keep_days: int | None = field(default=None, kw_only=True)
    keep_records: int | None = field(default=None, kw_only=True)
    accept_gap: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        fields = Fields(self)
        for key in ("file", "key_file", "checkpoints"):
            value = getattr(self, key)
            if value is not None:
                fields.keep(key, Path(value))
        fields.texts("values", "redact")
        fields.flag("sync", "accept_gap")
        fields.number("wait_s", 0.01, 60)
        fields.number("keep_days", 1, 36_500, whole=True)
        fields.number("keep_records", 1_000, MAX_COUNT, whole=True)
        fields.raise_errors()


METRICS_SCOPE = "metrics:read"


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What others may watch: `prometheus` serves figures at `metrics_path`, `opentelemetry` reports spans and
    figures to whatever the process is set up for. Both count and time calls; neither sees a value."""

    prometheus: bool = False
    metrics_path: str = "/metrics"
    metrics_open: bool = False
    """Figures are for everybody, though others are asked who they are."""
    metrics_scope: str = METRICS_SCOPE
    """What a caller has to hold to read them, where `auth` asks who callers are: they name tools, and not
    everybody may know of every tool."""
    opentelemetry: bool = False

    def __post_init__(self) -> None:
        fields = Fields(self)
        fields.flag("prometheus", "metrics_open", "opentelemetry")
        if not _PATH.fullmatch(str(self.metrics_path)):
            fields.refuse(f"must be a path such as '/metrics', got {self.metrics_path!r}", "metrics_path")
        if self.metrics_open is True and self.prometheus is False:
            fields.refuse("opens figures that are not kept", "metrics_open", hint=_NO_FIGURES)
        scope: Any = self.metrics_scope
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            fields.refuse(f"must be one scope such as '{METRICS_SCOPE}', got {scope!r}", "metrics_scope")
        elif scope != METRICS_SCOPE and self.prometheus is False:
            fields.refuse("is for figures that are not kept", "metrics_scope", hint=_NO_FIGURES)
        elif scope != METRICS_SCOPE and self.metrics_open is True:
            hint = "leave metrics_open out, or metrics_scope"
            fields.refuse("is asked of nobody: the figures are open", "metrics_scope", hint)
        fields.raise_errors()


_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")
_NO_FIGURES = "set prometheus = true, or leave it out"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything that is demanded. What is not mentioned is not demanded, and costs nothing.

    `default` is what happens to calls that no rule is about: "deny" as soon as some rule allows something,
    else "allow". `local_scopes` are held by the local user, who has no token to bring them ("*": all of them;
    without `auth` that is so anyway). `scopes` maps a scope to the tools that need it, besides what tools say
    themselves. `store` is a SQLite file that several processes count in together; without one, each counts
    for itself.
    """

    default: Literal["allow", "deny"] | None = None
    rules: Sequence[Rule] = ()
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scopes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    auth: Auth | None = None
    audit: Audit | None = None
    telemetry: Telemetry | None = None
    store: Path | str | None = None
    local_scopes: Sequence[str] = ()
    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Where keys were written, for errors: `rules[2].when.amount` is the second rule's."""

    def __post_init__(self) -> None:
        fields = Fields(self)
        fields.keep("rules", tuple(self.rules))
        fields.keep("limits", tuple(self.limits))
        with fields.collecting():
            fields.keep("local_scopes", read_texts("policy.local_scopes", self.local_scopes))
        for key in ("roles", "scopes"):
            table = getattr(self, key)
            if not isinstance(table, Mapping):
                fields.refuse("must be a table of lists", key)
                continue
            read: dict[str, Sequence[str]] = {}
            for name, items in table.items():
                with fields.collecting():
                    read[name] = read_texts(f"{key}.{name}", items)
            fields.keep(key, read)
        if self.store is not None:
            fields.keep("store", Path(self.store))
        allows = [number for number, rule in enumerate(self.rules, start=1) if rule.allow]
        if self.default not in (None, "allow", "deny"):
            fields.refuse(f"must be allow or deny, got {self.default!r}", "policy.default")
        if self.default == "allow" and allows:
            hint = 'leave policy.default out, or set it to "deny"'
            fields.add(self.error_at(f"rules[{allows[0]}]", "allows what is allowed anyway", hint))
        fields.raise_errors()

    @property
    def denies_by_default(self) -> bool:
        return self.default == "deny" or (self.default is None and any(rule.allow for rule in self.rules))

    def error_at(self, key: str, problem: str, hint: str | None = None) -> ConfigurationError:
        """An error about one key, with the place where it, or what holds it, was written."""
        line = find_line(self.lines, key)
        return ConfigurationError(problem, file=self.file, key=key, line=line, hint=hint)

    def error_from(self, key: str, error: ConfigurationError) -> ConfigurationError:
        """An error about a file that a key names, or about the key itself, with the place of the key."""
        problem = error.message if error.file is None else f"{error.file}: {error.message}"
        return self.error_at(error.key or key, problem, error.hint)


def find_line(lines: Mapping[str, int], key: str) -> int | None:
    """Where a key was written, or else whatever holds it."""
    place = key
    while place and place not in lines:
        place = place.rpartition("[" if place.endswith("]") else ".")[0]
    return lines.get(place)
