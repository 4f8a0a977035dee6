"""The rows that are measured on the wire: what each measures, and the goal it is held to.

A row is a function from the lab to lines of the table; it also leaves panels for the chart, in which all
contenders stand, while the table has room for three.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial

from bench.lab import Job, Lab, Outcome, ProbeError, median
from bench.lines import OURS, PEERS, AtLeast, AtMost, Bar, Goal, Line, NoLess, Panel, Unit, quotient, show
from bench.trace import count as counts_of
from bench.trace import trace as steps_of
from bench.wire import contenders, guarded, jobs, watch, wrk
from bench.wire.contenders import Contender, Running, serving
from bench.wire.messages import ERAS, GET, LEGACY, MODERN, READ, Era

CONNECTIONS = (1, 16, 64)
IN_FLIGHT = (1, 64)
FEW, MANY, CALLS = 10, 10_000, 1000
STOCKED = 50

CALL_GOALS: dict[Era, tuple[Goal, ...]] = {
    MODERN: (AtLeast("mcp", 10, aim=20), AtLeast("fastmcp", 45, aim=90)),
    LEGACY: (AtLeast("mcp", 20, aim=40), AtLeast("fastmcp", 30, aim=60)),
}
"""How much less CPU a call over HTTP takes than with the peers, at 16 connections."""
SYNC_GOALS: tuple[Goal, ...] = (AtLeast("mcp", 2), AtLeast("fastmcp", 6))

Outcomes = Mapping[str, list[Outcome]]


def http_call(lab: Lab) -> list[Line]:
    """A trivial call over HTTP: what it costs the server, and how many there are in a second."""
    span = jobs.Span.of(lab)
    racing = present(lab, "http")
    made = {one.name: jobs.http_calls(one, span, CONNECTIONS) for one in racing}
    outcomes = lab.rounds("http-call", 2 if lab.quick else 5, made)
    lines = []
    for era in ERAS:
        for count in CONNECTIONS:
            place = f"{era}, {count}"
            words = f"{era}, {count} connection{'s' if count > 1 else ''}"
            held = CALL_GOALS[era] if count == 16 else ()
            cpu = _figures(outcomes, f"{place}: cpu_per_call_s")
            lines.append(Line("http-call", f"{words}, CPU", "time", cpu, held))
            rate = _figures(outcomes, f"{place}: calls_per_s")
            lines.append(Line("http-call", f"{words}, calls", "rate", rate))
            lab.panels.append(_http_panel(f"tools/call over HTTP, {words}", outcomes, place))
    cpu = _figures(outcomes, "echo: cpu_per_call_s")
    lines.append(Line("http-call", "sync tool, 16 connections, CPU", "time", cpu, SYNC_GOALS))
    times = quotient(cpu.get(OURS), _figures(outcomes, f"{MODERN}, 16: cpu_per_call_s").get(OURS))
    lines.append(Line("http-call", "sync tool, in async calls", "factor", {OURS: times}, (AtMost(2.0),)))
    return lines + _stocked(lab, span)


def _stocked(lab: Lab, span: jobs.Span) -> list[Line]:
    """The same call where the server has fifty more tools, as servers have."""
    lab.make(STOCKED)
    made = {
        one.name: jobs.http_calls(one, span, (16,), str(lab.folder), str(STOCKED))
        for one in present(lab, "http", *PEERS, OURS)
    }
    outcomes = lab.rounds(f"http-call among {STOCKED} tools", 1 if lab.quick else 3, made)
    label = f"{{}}, 16 connections, {STOCKED} more tools, CPU"
    return [
        Line("http-call", label.format(era), "time", _figures(outcomes, f"{era}, 16: cpu_per_call_s"))
        for era in ERAS
    ]


def features(lab: Lab) -> list[Line]:
    """A resource read and a prompt get over HTTP, each made by an async function, at 16 connections."""
    span = jobs.Span.of(lab)
    racing = present(lab, "http", OURS, *PEERS)
    made = {one.name: jobs.http_features(one, span) for one in racing}
    outcomes = lab.rounds("features", 2 if lab.quick else 5, made)
    lines = []
    for era in ERAS:
        for kind, words in ((READ, "resources/read"), (GET, "prompts/get")):
            cpu = _figures(outcomes, f"{era}, {kind}: cpu_per_call_s")
            goals = tuple(AtLeast(peer, 8) for peer in PEERS)
            lines.append(Line("features", f"{words}, {era}, CPU", "time", cpu, goals))
            lab.panels.append(_panel(f"{words} over HTTP, {era}", "time", "CPU per request", cpu))
    listed = lab.rounds("10,000 resources", 2 if lab.quick else 5, {OURS: jobs.engine_list(MANY)})
    cpu = _figures(listed, "cpu_s")
    lines.append(Line("features", "resources/list of 10,000, cached, CPU", "time", cpu, (AtMost(0.003),)))
    return lines


def http_wrk(lab: Lab) -> list[Line]:
    """The same call with wrk as the client. All servers run, and are loaded in turn."""
    if not wrk.is_installed():
        raise ProbeError("wrk is not installed")
    lines = []
    with ExitStack() as stack:
        racing = present(lab, "http", OURS, "toolcrib ASGI", *PEERS)
        servers = {one.name: stack.enter_context(serving(one)) for one in racing}
        for era in ERAS:
            made: dict[str, Job] = {
                name: partial(wrk.load, server, era, 16, 1.0) for name, server in servers.items()
            }
            outcomes = lab.rounds(f"http-wrk, {era}", 3 if lab.quick else 9, made, warm_up=1)
            words = f"{era}, 16 connections"
            cpu = _figures(outcomes, "cpu_per_call_s")
            lines.append(Line("http-wrk", f"{words}, CPU", "time", cpu, CALL_GOALS[era]))
            lines.append(Line("http-wrk", f"{words}, ASGI, CPU", "time", {OURS: cpu.get("toolcrib ASGI")}))
            rate = _figures(outcomes, "calls_per_s")
            lines.append(Line("http-wrk", f"{words}, calls", "rate", rate))
    return lines


def trace(lab: Lab) -> list[Line]:  # noqa: ARG001
    """The way of one HTTP call through our code; `python -m bench.trace` prints it."""
    lines = []
    for era in ERAS:
        counts = counts_of(steps_of(era))
        figures = (
            ("functions", counts.functions, 55),
            ("modules", counts.modules, 16),
            ("returns to a module", counts.returns, 12),
        )
        for label, figure, most in figures:
            goals = (AtMost(most),) if era == MODERN else ()
            lines.append(Line("trace", f"{era}, {label}", "count", {OURS: float(figure)}, goals))
    return lines


def engine(lab: Lab) -> list[Line]:
    """A call in process, bytes in and bytes out."""
    lines = []
    doors: tuple[tuple[str, str, tuple[Goal, ...]], ...] = (
        ("messages", "protocol engine", (AtLeast("mcp", 25),)),
        ("asgi", "ASGI app", ()),
    )
    for door, words, goals in doors:
        made = {name: jobs.engine(name, door, lab.batch_s) for name in lab.libraries}
        outcomes = lab.rounds(f"engine, {words}", 2 if lab.quick else 5, made)
        for era in ERAS:
            figures = _figures(outcomes, f"{era}: cpu_per_call_s")
            lines.append(Line("engine", f"{words}, {era}, CPU", "time", figures, goals))
            lab.panels.append(
                _panel(f"tools/call in process, {words}, {era}", "time", "CPU per call", figures)
            )
    return lines


def stdio(lab: Lab) -> list[Line]:
    """Round trips over stdio, one after the other and with many in flight."""
    span = jobs.Span.of(lab)
    made = {one.name: jobs.pipe_calls(one, span, IN_FLIGHT) for one in present(lab, "stdio")}
    outcomes = lab.rounds("stdio", 2 if lab.quick else 5, made)
    lines = []
    for count, words, times in ((1, "one at a time", 5), (64, "64 in flight", 40)):
        for era in ERAS:
            rate = _figures(outcomes, f"{era}, {count}: calls_per_s")
            goals = tuple(AtLeast(peer, times) for peer in PEERS)
            lines.append(Line("stdio", f"{era}, {words}, calls", "rate", rate, goals))
            cpu = _figures(outcomes, f"{era}, {count}: cpu_per_call_s")
            lines.append(Line("stdio", f"{era}, {words}, CPU", "time", cpu))
            notes = {name: (show(value, "time"),) for name, value in cpu.items()}
            title = f"tools/call over stdio, {words}, {era}"
            lab.panels.append(_panel(title, "rate", "calls", rate, ("CPU per call",), notes))
    return lines


def list_10000(lab: Lab) -> list[Line]:
    """The list of 10,000 tools, and a call among them."""
    for count in (FEW, MANY):
        lab.make(count)
    racing = [one for one in present(lab, "http") if one.takes_many]
    if lab.quick:  # it takes minutes to register so many
        racing = [one for one in racing if one.name != "fastmcp"]
    with ExitStack() as stack:
        servers: dict[str, Running] = {}
        for one in racing:
            try:
                servers[one.name] = stack.enter_context(serving(one, str(lab.folder), str(MANY)))
            except ProbeError as problem:
                lab.lose(f"list-10000: {one.name}", str(problem))
        listed = lab.rounds(
            "list-10000",
            2 if lab.quick else 5,
            {name: partial(jobs.listing, server, MANY + 2, 0.5) for name, server in servers.items()},
        )
        span = jobs.Span.of(lab)
        calls = lab.rounds(
            "call among 10,000",
            1,
            {name: partial(jobs.load, server, MODERN, 1, span) for name, server in servers.items()},
        )
        growth = _growth(lab, stack, servers.get(OURS), span)
    cpu = _figures(listed, "cpu_s")
    lab.panels.append(_panel("tools/list of 10,000 tools over HTTP", "time", "CPU", cpu))
    return [
        Line("list-10000", "tools/list, CPU", "time", cpu, (AtLeast("mcp", 200),)),
        Line("list-10000", "tools/list, wall", "time", _figures(listed, "wall_s")),
        Line("list-10000", "bytes of the list", "bytes", _figures(listed, "bytes")),
        Line("list-10000", "a call, one connection, CPU", "time", _figures(calls, "cpu_per_call_s")),
        Line("list-10000", "a call, growth 10 to 10,000 tools", "factor", {OURS: growth}, (AtMost(1.2),)),
    ]


def _growth(lab: Lab, stack: ExitStack, many: Running | None, span: jobs.Span) -> float | None:
    """What a call among 10,000 costs, in calls among 10; both servers run, and are loaded in turn."""
    ours = present(lab, "http", OURS)
    if many is None or not ours:
        return None
    few = stack.enter_context(serving(ours[0], str(lab.folder), str(FEW)))
    made: dict[str, Job] = {
        f"{count} tools": partial(jobs.load, server, MODERN, 16, span)
        for count, server in ((FEW, few), (MANY, many))
    }
    outcomes = lab.rounds("call among 10 and 10,000", 3 if lab.quick else 9, made)
    small, large = (median(outcomes[name], "cpu_per_call_s") for name in made)
    return quotient(large, small)


def start(lab: Lab) -> list[Line]:
    """From the start of a process to its first answer on stdio."""
    made = {one.name: jobs.pipe_start(one) for one in present(lab, "stdio")}
    outcomes = lab.rounds("start", 3 if lab.quick else 7, made, warm_up=1)  # which may write bytecode
    lines = []
    for era, what in ((MODERN, "first call answered"), (LEGACY, "initialize answered")):
        wall, cpu = _figures(outcomes, f"{era}: wall_s"), _figures(outcomes, f"{era}: cpu_s")
        lines.append(Line("start", f"{era}, {what}, wall", "time", wall, (AtLeast("mcp", 3),)))
        lines.append(Line("start", f"{era}, {what}, CPU", "time", cpu))
        lab.panels.append(_panel(f"process start to {what} on stdio, {era}", "time", "wall", wall))
    return lines


def memory(lab: Lab) -> list[Line]:
    """What a server's process holds in memory."""
    lines = []
    for transport, weigh in (("http", jobs.http_weight), ("stdio", jobs.pipe_weight)):
        made = {one.name: weigh(one, CALLS) for one in present(lab, transport)}
        outcomes = lab.rounds(f"memory, {transport}", 1 if lab.quick else 3, made)
        for moment, key in (("after the start", "start"), (f"after {CALLS:,} calls", "later")):
            figures = _figures(outcomes, key)
            lines.append(Line("memory", f"{transport}, {moment}", "bytes", figures, (AtLeast("mcp", 2),)))
        title = f"memory of a server on {transport}, after {CALLS:,} calls"
        lab.panels.append(_panel(title, "bytes", "resident", _figures(outcomes, "later")))
    return lines


def policy(lab: Lab) -> list[Line]:
    """The same call with an API key, rules, limits and the audit log, beside those without any of it. All
    servers run, and are loaded in turn: what the machine does meanwhile it does to all of them."""
    span = jobs.Span.of(lab)
    outcomes = {}
    with guarded.servers(lab, present(lab, "http", OURS, "mcp")) as servers:
        for count in (16, 64):
            made = {name: partial(server, count, span) for name, server in servers.items()}
            outcomes[count] = lab.rounds(f"policy, {count} connections", 3 if lab.quick else 15, made)
    lines = []
    for count in (16, 64):
        cpu = _figures(outcomes[count], "cpu_per_call_s")
        rate = _figures(outcomes[count], "calls_per_s")
        words = f"{MODERN}, {count} connections"
        goals = (AtLeast("mcp", 10),) if count == 16 else ()
        theirs = {"mcp": cpu.get("mcp")}
        lines.append(
            Line("policy", f"{words}, all of it on, CPU", "time", {OURS: cpu.get("guarded"), **theirs}, goals)
        )
        times = quotient(cpu.get("guarded"), cpu.get(OURS))
        most = (AtMost(2.0),) if count == 16 else ()
        lines.append(Line("policy", f"{words}, in calls without it", "factor", {OURS: times}, most))
        lines.append(
            Line(
                "policy",
                f"{words}, all of it on, calls",
                "rate",
                {OURS: rate.get("guarded"), "mcp": rate.get("mcp")},
            )
        )
    unused = lab.rounds("no policy", 1 if lab.quick else 3, {OURS: guarded.unused(lab)})
    paid = median(unused[OURS], "quotient")
    lines.append(
        Line("policy", "none of it, against code without it", "factor", {OURS: paid}, (AtMost(1.02),))
    )
    records = lab.rounds("audit", 2 if lab.quick else 5, {OURS: guarded.records(lab)})
    figures = _figures(records, "sqlite: records_per_s")
    lines.append(Line("policy", "records committed, SQLite", "rate", figures, (NoLess(20_000),)))
    return lines


# By the names that --only takes.
ROWS: dict[str, Callable[[Lab], list[Line]]] = {
    "http-call": http_call,
    "features": features,
    "http-wrk": http_wrk,
    "trace": trace,
    "engine": engine,
    "stdio": stdio,
    "list-10000": list_10000,
    "start": start,
    "memory": memory,
    "policy": policy,
}


def present(lab: Lab, transport: str, *names: str) -> list[Contender]:
    """The contenders that can be measured here over that transport, or those of them that are named."""
    if not watch.SUPPORTED:
        raise ProbeError("another process's CPU clock can be read on Linux only")
    found = [one for one in contenders.ALL if getattr(one, transport) and (not names or one.name in names)]
    return [one for one in found if lab.has(one.library) or (one.library == "typescript" and _typescript())]


def further_versions() -> dict[str, str]:
    """The versions of what only the wire compares with."""
    return contenders.typescript_versions() if _typescript() else {}


@cache
def _typescript() -> bool:
    reason = contenders.without_typescript()
    if reason is not None:
        print(f"note: TypeScript is left out: {reason}", file=sys.stderr)
    return reason is None


def _figures(outcomes: Outcomes, key: str) -> dict[str, float | None]:
    return {name: median(results, key) for name, results in outcomes.items()}


def _http_panel(title: str, outcomes: Outcomes, place: str) -> Panel:
    columns: tuple[tuple[str, str, Unit], ...] = (
        ("calls", "calls_per_s", "rate"),
        ("p50", "p50_s", "time"),
        ("p99", "p99_s", "time"),
    )
    notes = {
        name: tuple(show(median(results, f"{place}: {key}"), unit) for _, key, unit in columns)
        for name, results in outcomes.items()
    }
    figures = _figures(outcomes, f"{place}: cpu_per_call_s")
    return _panel(title, "time", "CPU per call", figures, tuple(head for head, _, _ in columns), notes)


def _panel(
    title: str,
    unit: Unit,
    measure: str,
    figures: Mapping[str, float | None],
    heads: tuple[str, ...] = (),
    notes: Mapping[str, tuple[str, ...]] | None = None,
) -> Panel:
    bars = tuple(Bar(name, value, (notes or {}).get(name, ())) for name, value in figures.items())
    return Panel(title, unit, measure, bars, heads)
