"""`toolcrib explain`: show what the policy decides about a call, and why."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from toolcrib.cli.call import convert_arguments, parse_object, parse_pairs
from toolcrib.cli.keys import Keys
from toolcrib.cli.load import find_unused_policy, load, load_named
from toolcrib.cli.options import Command, CommandError, json_option, target_option
from toolcrib.cli.output import Terminal
from toolcrib.cli.table import NAME, Column, print_table
from toolcrib.cli.text import STATE_STYLES, Styled, join, one_line, style, style_state, suggest
from toolcrib.component import Component
from toolcrib.config import load_default_config
from toolcrib.config.settings import Policy
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError, InvalidArgumentsError
from toolcrib.policy.access import Access
from toolcrib.policy.access.explain import Explanation, Verdict, decided_by, explain
from toolcrib.policy.auth.api_keys import State, state_of
from toolcrib.registry.selection import LIST_NAMES, label_of

EXAMPLES = """
toolcrib explain --as key:ana                    every tool
toolcrib explain --as key:ana refund amount=500  one call
toolcrib explain --as key:ana orders://17        one resource
toolcrib explain --as key:ana prompt:complain    one prompt
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
_VERBS = {"tool": "calls", "resource": "reads", "prompt": "uses"}
_APPLIES = {True: "applies", False: "does not apply", None: "depends"}


@click.command("explain", cls=Command, examples=EXAMPLES)
@click.argument("name", required=False, metavar="[NAME]")
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

    NAME is the name of a tool or prompt, or the URI of a resource or a template; tool:NAME, resource:URI and
    prompt:NAME choose the kind. Without NAME, prints one line for everything. Without arguments, shows what
    holds for any arguments; --args '{}' means a call without arguments. A URI has the arguments of its
    template. Scopes and roles of a key are read from the key file.

    Exit code 0: the call is allowed or may be. 1: it is refused. 2: wrong usage.
    """
    if name is None:
        if given is not None:
            raise CommandError("--args requires a name", "name the tool before it")
        loaded = load(targets, terminal)
        loaded.check_config()  # it may contain rules about the caller
    else:
        values = {**(parse_object(given, "after --args") if given is not None else {}), **parse_pairs(pairs)}
        loaded, tool, variables, _ = load_named(name, targets, terminal)
        if variables is not None:
            values, given = {**variables, **values}, given or ""
    enforcer = loaded.server.enforcer
    access = Access(Policy()) if enforcer is None else enforcer.access
    principal, key_state = _find_principal(access.policy, who, roles, scopes, terminal)
    is_rejected = key_state not in (None, "active")
    if enforcer is None:
        hint = "to restrict calls, add [[rules]] to toolcrib.toml"
        kinds = "every tool" if not loaded.features else "every tool, resource and prompt"
        terminal.message("note", f"no policy: every caller may use {kinds}", hint)
    for finding in (*loaded.errors, *find_unused_policy(loaded.server)):
        terminal.finding(finding)
    if name is None:
        tools = loaded.catalog(terminal).components
        every = [explain(access, principal, tool) for tool in tools]
        if as_json:
            named = sorted({role for item in every for role in item.roles})
            caller = {"name": principal.name, "roles": named, "scopes": sorted(principal.scopes)}
            lists: dict[str, Any] = {"tools": []}
            for tool, item in zip(tools, every, strict=True):
                lists.setdefault(LIST_NAMES[label_of(tool)], []).append(item.to_json())
            terminal.json({"principal": caller, "key": key_state, **lists})
        else:
            columns = (NAME, Column("CALL", wraps=False, styles=STATE_STYLES), Column("DECIDED BY"))
            rows = [(item.tool, _summarize(item), decided_by(item)) for item in every]
            print_table(columns, rows, terminal)
            if is_rejected:
                terminal.message("warning", f"the key is {key_state}: HTTP refuses it with 401")
        return 1 if is_rejected else 0
    found = explain(access, principal, tool)
    if pairs or given is not None:
        found = _explain_arguments(found, access, principal, tool, values, pairs)
    is_refused = found.is_refused or is_rejected
    if as_json:
        terminal.json({**found.to_json(), "key": key_state, "refused": is_refused})
    else:
        for line in _format(found, tool.kind, key_state if is_rejected else None):
            terminal.echo(line)
    return 1 if is_refused else 0


def _find_principal(
    policy: Policy, who: str, roles: Sequence[str], scopes: Sequence[str], terminal: Terminal
) -> tuple[Principal, State | None]:
    """Return the caller with the scopes and roles of their key, and the state of the key."""
    auth = policy.auth
    kind, _, name = who.partition(":")
    if kind == "role" or not who.strip():
        raise CommandError(f"'{who}' is not a caller", "use --as key:NAME --role ROLE")
    is_key = kind == "key" and auth is not None and auth.keys is not None
    if is_key and auth is not None and not auth.keys_in_state and not os.path.exists(auth.keys or ""):
        text = f"no key file {auth.keys}: roles and scopes of {who} are those of --role and --scope"
        terminal.message("note", text)
    elif is_key and auth is not None:
        try:
            entries = Keys.open(auth.keys, load_default_config()).read()
        except ConfigurationError as error:
            raise policy.error_from("auth.keys", error) from None
        keys = [key for key in entries if key.name == name]
        if not keys:
            hint = suggest(name, [key.name for key in entries])
            raise CommandError(f"No key '{name}' in {auth.keys}", hint)
        now_s = time.time()
        key = next((key for key in keys if state_of(key, now_s) == "active"), keys[-1])
        principal = Principal(who, frozenset({*scopes, *key.scopes}), frozenset({*roles, *key.roles}))
        return principal, state_of(key, now_s)
    labels = [] if auth is None else [item.label for item in auth.oauth]
    if who not in ("local", "anonymous") and kind not in ("key", "oauth", *labels):
        hint = "callers are: local, anonymous, key:NAME, oauth:SUBJECT"
        terminal.message("warning", f"no principal can be named '{who}'", hint)
    return Principal(who, frozenset(scopes), frozenset(roles)), None


def _explain_arguments(
    found: Explanation,
    access: Access,
    principal: Principal,
    tool: Component,
    values: dict[str, Any],
    pairs: Sequence[str],
) -> Explanation:
    try:
        arguments = tool.arguments.check(convert_arguments(values, pairs, tool.definition))
        return explain(access, principal, tool, arguments)
    except InvalidArgumentsError as error:
        if found.is_refused:  # such a call does not get this far
            return found
        raise CommandError(str(error), "rules are checked for valid arguments only") from None
    except Exception as error:  # raised by a validator of the tool's author
        text = f"Cannot convert the arguments of '{tool.name}': {type(error).__name__}: {error}"
        raise CommandError(text, "a call with these arguments would fail in the same way") from None


# --- output ------------------------------------------------------------------------------------------


def _summarize(found: Explanation) -> str:
    return f"needs {' '.join(found.missing)}" if found.verdict == "scope" else _VERDICTS[found.verdict]


def _format(found: Explanation, kind: str, rejected: State | None) -> Iterator[Styled]:
    state = STATE_STYLES.get(_VERDICTS.get(found.verdict, "denied"), {})
    verdict = style(_format_verdict(found, kind), **state)
    yield join(f"{found.principal} {_VERBS[kind]} {found.tool}: ", verdict)
    if rejected is not None:
        yield join(f"  The key is {rejected}: HTTP requests with it are refused with 401.")
    yield join()
    required = f" (required: {', '.join(found.needed)})" if found.needed else ""
    yield join(f"  roles   {', '.join(found.roles) or 'none'}")
    yield join(f"  scopes  {', '.join(found.scopes) or 'none'}{required}")
    width = max((len(step.rule) for step in found.steps), default=0)
    for step in found.steps:
        start = f"  {step.effect:<7} {step.rule:<{width}}  "
        yield join(start, style_state(_APPLIES[step.counts]), f": {one_line(step.why)}".rstrip())
    if not found.steps:
        yield join(f"  rules   no rule matches this {kind}")
    yield join(f"  default {found.default}")
    for limit in found.limits:
        yield join(f"  limit   {limit.removeprefix('limit ')}".rstrip())


def _format_verdict(found: Explanation, kind: str) -> str:
    decider = decided_by(found)
    because = f" ({one_line(found.because)})" if found.because else ""
    match found.verdict:
        case "hidden":
            return f"denied by {decider}{because}. The {kind} is hidden from this caller."
        case "scope":
            return f"refused, missing scope: {' '.join(found.missing)}. The {kind} is listed."
        case "denied":
            return f"denied for these arguments by {decider}{because}."
        case "depends":
            return "depends on the arguments."
        case "confirm":
            return f"allowed after confirmation, required by {one_line(found.confirm).rstrip('.')}."
        case _:
            return f"allowed by {decider}."
