"""`toolcrib explain`: show what the policy decides about a call, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.call import convert_arguments, parse_object, parse_pairs
from toolcrib.cli.load import Loaded, find_unused_policy, load, load_one
from toolcrib.cli.options import Command, CommandError, json_option, target_option
from toolcrib.cli.output import Terminal
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
toolcrib explain --as key:ana                    every tool
toolcrib explain --as key:ana refund amount=500  one call
toolcrib explain --as oauth:17 --role support --scope orders:write refund
toolcrib explain -t shop.toml --as local refund --args '{"amount": 5}'
"""
_VERDICTS: dict[Verdict, str] = {
    "allowed": "allowed",
    "confirm": "asks for confirmation",
    "depends": "depends on arguments",
    "denied": "denied",
    "hidden": "hidden",
}
_APPLIES = {True: "applies", False: "does not apply", None: "depends"}


@click.command("explain", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[TOOL]")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--as", "who", default="local", metavar="WHO", help="Caller: local, key:NAME, oauth:SUBJECT.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Role of the caller; repeatable.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Scope of the caller; repeatable.")
@click.option("--args", "given", metavar="JSON", help="Arguments as a JSON object.")
@target_option
@json_option
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
    """Show what the policy decides about a call, and why.

    Without TOOL, prints one line for every tool. Without arguments, shows what holds for any arguments;
    --args '{}' means a call without arguments. Scopes and roles of a key are read from the key file.

    Exit code 0: the call is allowed or may be. 1: it is refused. 2: wrong usage.
    """
    if name is None:
        if given is not None:
            raise CommandError("--args requires a tool", "name the tool before it")
        loaded = load(targets, terminal)
        loaded.check_config()  # it may contain rules about the caller
        return _Report(terminal, loaded, who, roles, scopes, as_json).print_all()
    values = {**(parse_object(given, "after --args") if given is not None else {}), **parse_pairs(pairs)}
    loaded, tool = load_one(name, targets, terminal)
    report = _Report(terminal, loaded, who, roles, scopes, as_json)
    has_arguments = pairs or given is not None
    return report.print_one(
        tool, convert_arguments(values, pairs, tool.definition) if has_arguments else None
    )


class _Report:
    """Explains and prints the decisions about one caller."""

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
        self.key_state: State | None = None
        self.principal = self._find_principal(who, roles, scopes)
        if enforcer is None:
            terminal.message("note", "no policy: every caller may call every tool", "see docs/access.md")
        for finding in (*loaded.errors, *find_unused_policy(loaded)):
            terminal.finding(finding)

    def _find_principal(self, who: str, roles: Sequence[str], scopes: Sequence[str]) -> Principal:
        auth = self.access.policy.auth
        all_scopes, all_roles = frozenset(scopes), frozenset(roles)
        kind, _, name = who.partition(":")
        if kind == "role" or not who.strip():
            raise CommandError(f"'{who}' is not a caller", "use --as key:NAME --role ROLE")
        if kind == "key" and auth is not None and auth.keys is not None:
            entries = self._read_keys(auth.keys)
            keys = [key for key in entries if key.name == name]
            if not keys:
                hint = suggest(name, [key.name for key in entries])
                raise CommandError(f"No key '{name}' in {auth.keys}", hint)
            now_s = time.time()
            key = next((key for key in keys if key.state(now_s) == "active"), keys[-1])
            self.key_state = key.state(now_s)
            all_scopes, all_roles = all_scopes.union(key.scopes), all_roles.union(key.roles)
        labels = [] if auth is None else [item.label for item in auth.oauth]
        if who not in ("local", "anonymous") and kind not in ("key", "oauth", *labels):
            hint = "callers are: local, anonymous, key:NAME, oauth:SUBJECT"
            self.terminal.message("warning", f"no principal can be named '{who}'", hint)
        return Principal(who, all_scopes, all_roles)

    def _read_keys(self, file: Path | str) -> Sequence[Key]:
        try:
            return KeyFile(file).entries()
        except ConfigurationError as error:
            raise self.access.policy.error_from("auth.keys", error) from None

    @property
    def _is_key_rejected(self) -> bool:
        return self.key_state not in (None, "active")

    # --- one tool ---

    def print_one(self, tool: Tool, arguments: dict[str, Any] | None) -> int:
        found = explain(self.access, self.principal, tool)
        if arguments is not None:
            try:
                found = explain(self.access, self.principal, tool, tool.arguments.check(arguments))
            except InvalidArgumentsError as error:
                if not found.is_refused:  # a call that is refused anyway does not get this far
                    raise CommandError(str(error), "rules are checked for valid arguments only") from None
            except Exception as error:  # raised by a validator of the tool's author
                text = f"Cannot convert the arguments of '{tool.name}': {type(error).__name__}: {error}"
                raise CommandError(text, "a call with these arguments would fail in the same way") from None
        is_refused = found.is_refused or self._is_key_rejected
        if self.as_json:
            self.terminal.json({**found.to_json(), "key": self.key_state, "refused": is_refused})
        else:
            for line in self._lines(found):
                self.terminal.echo(line.rstrip())
        return 1 if is_refused else 0

    def _lines(self, found: Explanation) -> Iterator[str]:
        yield f"{found.principal} calls {found.tool}: {_format_verdict(found)}"
        if self._is_key_rejected:
            yield f"  The key is {self.key_state}: HTTP requests with it are refused with 401."
        yield ""
        required = f" (required: {', '.join(found.needed)})" if found.needed else ""
        yield f"  roles   {', '.join(found.roles) or 'none'}"
        yield f"  scopes  {', '.join(found.scopes) or 'none'}{required}"
        width = max((len(step.rule) for step in found.steps), default=0)
        for step in found.steps:
            yield f"  {step.effect:<7} {step.rule:<{width}}  {_APPLIES[step.counts]}: {one_line(step.why)}"
        if not found.steps:
            yield "  rules   no rule matches this tool"
        yield f"  default {found.default}"
        for limit in found.limits:
            yield f"  limit   {limit.removeprefix('limit ')}"

    # --- every tool ---

    def print_all(self) -> int:
        found = [explain(self.access, self.principal, tool) for tool in self.loaded.build_tools()]
        if self.as_json:
            roles = sorted({role for item in found for role in item.roles})
            principal = {"name": self.principal.name, "roles": roles, "scopes": sorted(self.principal.scopes)}
            tools = [item.to_json() for item in found]
            self.terminal.json({"principal": principal, "key": self.key_state, "tools": tools})
            return 1 if self._is_key_rejected else 0
        rows = [("NAME", "CALL", "DECIDED BY")]
        for item in found:
            is_scope = item.verdict == "scope"
            verdict = f"needs {' '.join(item.missing)}" if is_scope else _VERDICTS[item.verdict]
            rows.append((item.tool, verdict, decided_by(item)))
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        for tool, verdict, rule in rows:
            self.terminal.echo(f"{tool:<{first}}  {verdict:<{second}}  {rule}".rstrip())
        if self._is_key_rejected:
            self.terminal.message("warning", f"the key is {self.key_state}: HTTP refuses it with 401")
        return 1 if self._is_key_rejected else 0


def _format_verdict(found: Explanation) -> str:
    decider = decided_by(found)
    because = f" ({one_line(found.because)})" if found.because else ""
    match found.verdict:
        case "hidden":
            return f"denied by {decider}{because}. The tool is hidden from this caller."
        case "scope":
            return f"refused, missing scope: {' '.join(found.missing)}. The tool is listed."
        case "denied":
            return f"denied for these arguments by {decider}{because}."
        case "depends":
            return f"depends on the arguments.{_format_witness(found)}"
        case "confirm":
            return f"allowed by {decider} after confirmation: {one_line(found.confirm).rstrip('.')}."
        case _:
            return f"allowed by {decider}."


def _format_witness(found: Explanation) -> str:
    if not found.witness:
        return ""
    shown = ", ".join(f"{key}={one_line(codec.encode_text(value))}" for key, value in found.witness.items())
    return f" Allowed for example: {shown}."
