"""The policy that files ask for, put around a server; and what of it is wrong, as findings.

A server whose policy is wrong is not served without it. Knows files and servers; refuses to know what
policies mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolcrib.cli.options import Failure
from toolcrib.cli.output import Terminal
from toolcrib.config import FILE_NAME, Config, load_config
from toolcrib.config.settings import Policy
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.server import MCPServer


def enforce(server: MCPServer, configs: Sequence[Config]) -> None:
    """Put the policy of these files around a server, where one of them has any. Raises Failure."""
    try:
        put_around(server, configs)
    except ConfigurationError as error:
        raise failure_of(error) from None


def failure_of(error: ConfigurationError) -> Failure:
    """The first thing that is wrong, and how many more there are."""
    more = f" (and {len(error.others)} more: see `toolcrib check`)" if error.others else ""
    return Failure(f"{error}{more}", error.hint)


def put_around(server: MCPServer, configs: Sequence[Config]) -> None:
    """The same. Raises ConfigurationError for a policy that makes no sense, Failure for more than one."""
    asking = [config for config in configs if config.policy is not None]
    if not asking:
        return
    if len(asking) > 1:
        files = ", ".join(str(config.file) for config in asking)
        raise Failure(f"There is more than one policy: {files}", "keep the sections of a policy in one file")
    if server.enforcer is not None:
        raise Failure(f"{asking[0].file} has a policy, and so has the server in the code", "keep one of them")
    policy = asking[0].policy
    if policy is not None:
        server.enforce(policy)


def warn_unread(targets: Sequence[str], terminal: Terminal) -> None:
    """Say that a file here asks for a policy that nobody reads, because other things were named."""
    here = Path(FILE_NAME)
    if not targets or any(target.endswith(".toml") for target in targets) or not here.is_file():
        return
    try:
        has_policy = load_config(here).policy is not None
    except ConfigurationError:
        return  # whoever reads it will hear of that
    if has_policy:
        words = f"{FILE_NAME} here asks for a policy, and is not read: other targets were named"
        terminal.say("warning", words, f"to serve under it, name it too: toolcrib serve {FILE_NAME}")


def find_idle(server: MCPServer, refused: Policy | None = None) -> list[Finding]:
    """What of a policy means no tool of the server; or of one that it `refused` for something else."""
    tools = server.registry.published()
    if refused is not None:
        from toolcrib.policy.enforcer import check_unmatched  # most servers have none

        return [finding_of(error) for error in check_unmatched(refused, tools)]
    return [] if server.enforcer is None else [finding_of(error) for error in server.enforcer.check(tools)]


def find_unreadable(server: MCPServer, refused: Policy | None = None) -> list[Finding]:
    """A file of keys that a server would not start with. It need not be on the machine that checks."""
    policy = refused if server.enforcer is None else server.enforcer.policy
    auth = None if policy is None else policy.auth
    if policy is None or auth is None or auth.keys is None:
        return []
    from toolcrib.policy.auth.api_keys import KeyFile  # most policies are looked at without it

    try:
        KeyFile(auth.keys).entries()
    except ConfigurationError as error:
        found = finding_of(policy.error_from("auth.keys", error))
        return [replace(found, level="warning", message=f"{found.message}: serve will refuse to start")]
    return []


def finding_of(error: ConfigurationError) -> Finding:
    text = f"{error.key}: {error.message}" if error.key else error.message
    return Finding(error.code, "error", text, file=error.file, line=error.line, hint=error.hint)


def refuse_idle(server: MCPServer) -> None:
    """Raise Failure where a policy means tools that are not there: something is not guarded as was wished."""
    found = find_idle(server)
    if found:
        first = found[0]
        place = f"{first.file}:{first.line}: " if first.file and first.line else ""
        rest = f" (and {len(found) - 1} more: see `toolcrib check`)" if len(found) > 1 else ""
        raise Failure(f"{place}{first.message}{rest}", first.hint)


def warn_apart(policy: Policy, workers: int, terminal: Terminal) -> None:
    """Say what each of several processes counts for itself all the same."""
    if workers > 1 and policy.auth is not None and policy.auth.requests is not None:
        words = (
            f"each of {workers} workers counts for itself: callers may come up to {workers} times as often"
        )
        error = policy.error_at("auth.requests", words)
        terminal.say("note", error, "[[limits]] with a store under [policy] count calls exactly")


def refuse_apart(policy: Policy, workers: int) -> None:
    """Raise Failure where each of several processes would count for itself what the policy counts for all."""
    if workers == 1 or policy.store is not None:
        return
    counts = [
        f"limits[{number}]"
        for number, limit in enumerate(policy.limits, start=1)
        if any(amount is not None for amount in (limit.rate, limit.concurrency, limit.daily))
    ]
    asks = [f"rules[{number}]" for number, rule in enumerate(policy.rules, start=1) if rule.confirm]
    if not counts and not asks:
        return
    more = f"this limit would let through up to {workers} times as much"
    problem = f"{workers} workers have nothing to count in together: " + (
        more if counts else f"one yes would be good for {workers} calls"
    )
    hint = 'name a file under [policy]: store = "policy.db"; or use one process'
    error = policy.error_at((counts or asks)[0], problem, hint)
    raise Failure(str(error), error.hint)
