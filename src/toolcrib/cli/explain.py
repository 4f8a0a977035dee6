"""`toolcrib explain`: what would happen if somebody called a tool, and which rule decides."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.call import fit_words, read_object, read_pairs
from toolcrib.cli.load import Loaded, load, load_one
from toolcrib.cli.options import Command, Failure, takes_json, takes_target_options
from toolcrib.cli.output import Terminal
from toolcrib.cli.policy import find_idle
from toolcrib.cli.text import one_line, suggest
from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, InvalidArgumentsError
from toolcrib.policy.access import Access
from toolcrib.policy.access.explain import Explanation, Verdict, decided_by, explain
from toolcrib.policy.auth.api_keys import Key, KeyFile, State
from toolcrib.tool import Tool
from toolcrib.validation import codec

EXAMPLES = """
toolcrib explain --as key:ana                    every tool, as it has them
toolcrib explain --as key:ana refund amount=500  one call
toolcrib explain --as oauth:17 --role support --scope orders:write refund
toolcrib explain -t shop.toml --as local refund --args '{"amount": 5}'
"""
_SHORT: dict[Verdict, str] = {
    "allowed": "allowed",
    "confirm": "asks a person first",
    "depends": "depends on arguments",
    "denied": "denied",
    "scope": "needs a scope",
    "hidden": "hidden",
}
_COUNTS = {True: "counts", False: "does not count", None: "depends"}


@click.command("explain", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[TOOL]")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--as", "who", default="local", metavar="WHO", help="Who calls: local, key:NAME, oauth:SUBJECT."
)
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role that the caller brings along.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="A scope that the caller holds.")
@click.option("--args", "given", metavar="JSON", help="The arguments as a JSON object.")
@takes_target_options
@takes_json
def explain_call(
    terminal: Terminal,
    name: str | None,
    pairs: Sequence[str],
    who: str,
    roles: Sequence[str],
    scopes: Sequence[str],
    given: str | None,
    targets: Sequence[str],
    as_json: bool,
) -> int:
    """Say what would happen if somebody called a tool, and which rule decides.

    Without TOOL, a line for every tool. Without arguments, what can be said whatever they are; --args '{}'
    means a call with none. What a key is good for is read from the file of keys, where the policy names one.

    Exit code 0: it would be allowed, or might be. 1: it would be refused. 2: the command was given wrongly.
    """
    if name is None:
        if given is not None:
            raise Failure("There are arguments, and no tool", "name the tool before them")
        loaded = load(targets, terminal)
        if loaded.unread:
            raise loaded.unread[0]  # what it would have said about callers is not known
        return _Report(terminal, loaded, who, roles, scopes, as_json).table()
    values = {**(read_object(given, "after --args") if given is not None else {}), **read_pairs(pairs)}
    loaded, tool = load_one(name, targets, terminal)
    report = _Report(terminal, loaded, who, roles, scopes, as_json)
    return report.one(tool, fit_words(values, pairs, tool.definition) if pairs or given is not None else None)


class _Report:
    """What one command has to say."""

    def __init__(
        self,
        terminal: Terminal,
        loaded: Loaded,
        who: str,
        roles: Sequence[str],
        scopes: Sequence[str],
        as_json: bool,
    ) -> None:
        self.terminal = terminal
        self.loaded = loaded
        self.as_json = as_json
        enforcer = loaded.server.enforcer
        self.access = Access(Policy()) if enforcer is None else enforcer.access
        self.state: State | None = None
        self.principal = self._find_principal(who, roles, scopes)
        if enforcer is None:
            terminal.say("note", "there is no policy: everybody may call everything", "see docs/access.md")
        for finding in (*loaded.errors, *find_idle(loaded.server)):
            terminal.tell(finding)

    def _find_principal(self, who: str, roles: Sequence[str], scopes: Sequence[str]) -> Principal:
        auth = self.access.policy.auth
        held, borne = frozenset(scopes), frozenset(roles)
        kind, _, name = who.partition(":")
        if kind == "role" or not who.strip():
            raise Failure(f"'{who}' is not a caller", "name one and its roles: --as key:NAME --role ROLE")
        if kind == "key" and auth is not None and auth.keys is not None:
            entries = self._read_keys(auth.keys)
            keys = [key for key in entries if key.name == name]
            if not keys:
                known = [key.name for key in entries]
                raise Failure(f"There is no key '{name}' in {auth.keys}", suggest(name, known))
            now_s = time.time()
            key = next((key for key in keys if key.state(now_s) == "active"), keys[-1])
            self.state = key.state(now_s)
            held, borne = held.union(key.scopes), borne.union(key.roles)
        labels = [] if auth is None else [item.label for item in auth.oauth]
        if who not in ("local", "anonymous") and kind not in ("key", "oauth", *labels):
            hint = "names are: local, anonymous, key:NAME, oauth:SUBJECT"
            self.terminal.say("warning", f"no principal can be named '{who}'", hint)
        return Principal(who, held, borne)

    def _read_keys(self, file: Path | str) -> Sequence[Key]:
        try:
            return KeyFile(file).entries()
        except ConfigurationError as error:
            raise self.access.policy.error_from("auth.keys", error) from None

    @property
    def _is_shut_out(self) -> bool:
        """Whether the caller is refused before anything is asked."""
        return self.state not in (None, "active")

    # --- one tool ---

    def one(self, tool: Tool, arguments: dict[str, Any] | None) -> int:
        found = explain(self.access, self.principal, tool)
        if arguments is not None:
            try:
                found = explain(self.access, self.principal, tool, tool.arguments.check(arguments))
            except InvalidArgumentsError as error:
                if not found.is_refused:  # a call that is refused anyway never comes so far
                    raise Failure(str(error), "no rule is asked about arguments that do not fit") from None
            except Exception as error:  # a validator of the author's
                words = f"Cannot convert the arguments of '{tool.name}': {type(error).__name__}: {error}"
                raise Failure(words, "a call with these arguments would fail in the same way") from None
        if self.as_json:
            self.terminal.json({**found.to_json(), "key": self.state, "refused": self._is_refused(found)})
        else:
            for line in self._lines(found):
                self.terminal.data(line.rstrip())
        return 1 if self._is_refused(found) else 0

    def _is_refused(self, found: Explanation) -> bool:
        return found.is_refused or self._is_shut_out

    def _lines(self, found: Explanation) -> Iterator[str]:
        yield f"{found.principal} calls {found.tool}: {_say_verdict(found)}"
        if self._is_shut_out:
            yield f"  But the key is {self.state}: HTTP refuses it with 401 before anything is asked."
        yield ""
        yield f"  roles   {', '.join(found.roles) or 'none'}"
        yield f"  scopes  {', '.join(found.scopes) or 'none'}{_say_needed(found)}"
        widest = max((len(step.rule) for step in found.steps), default=0)
        for step in found.steps:
            yield f"  {step.effect:<7} {step.rule:<{widest}}  {_COUNTS[step.counts]}: {one_line(step.why)}"
        if not found.steps:
            yield "  rules   none is about this tool"
        yield f"  default {found.default}"
        for limit in found.limits:
            yield f"  limit   {limit.removeprefix('limit ')}"

    # --- every tool ---

    def table(self) -> int:
        found = [explain(self.access, self.principal, tool) for tool in self.loaded.list_built()]
        if self.as_json:
            roles = sorted({role for item in found for role in item.roles})
            principal = {"name": self.principal.name, "roles": roles, "scopes": sorted(self.principal.scopes)}
            tools = [item.to_json() for item in found]
            self.terminal.json({"principal": principal, "key": self.state, "tools": tools})
            return 1 if self._is_shut_out else 0
        rows = [("NAME", "A CALL", "DECIDED BY")]
        rows += [(item.tool, _say_short(item), decided_by(item)) for item in found]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        for tool, verdict, rule in rows:
            self.terminal.data(f"{tool:<{first}}  {verdict:<{second}}  {rule}".rstrip())
        if self._is_shut_out:
            self.terminal.say("warning", f"the key is {self.state}: HTTP refuses it with 401")
        return 1 if self._is_shut_out else 0


def _say_short(found: Explanation) -> str:
    return f"needs {' '.join(found.missing)}" if found.verdict == "scope" else _SHORT[found.verdict]


def _say_verdict(found: Explanation) -> str:
    decider = decided_by(found)
    because = f" ({one_line(found.because)})" if found.because else ""
    match found.verdict:
        case "hidden":
            return f"denied by {decider}{because}. To them it is an unknown tool."
        case "scope":
            return f"refused, for want of a scope: {' '.join(found.missing)}. They see the tool."
        case "denied":
            return f"denied for these arguments by {decider}{because}."
        case "depends":
            return f"depends on the arguments.{_say_witness(found)}"
        case "confirm":
            return f"allowed by {decider}, when a person agrees: {one_line(found.confirm).rstrip('.')}."
        case _:
            return f"allowed by {decider}."


def _say_witness(found: Explanation) -> str:
    if not found.witness:
        return ""
    shown = ", ".join(f"{key}={one_line(codec.encode_text(value))}" for key, value in found.witness.items())
    return f" These pass: {shown}."


def _say_needed(found: Explanation) -> str:
    return f" (it needs {', '.join(found.needed)})" if found.needed else ""
