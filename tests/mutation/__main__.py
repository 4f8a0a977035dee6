"""Mutation testing: `python dev.py mutate [GROUP or FILE ...] [--sample N] [--seed N] [--json FILE]`.

Breaks the source in one small way after another and runs the tests that touch the broken line; a mutant that
no test notices survives. `survivors.toml` has those that are accepted, each with its reason: another one is a
failure.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import coverage

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.running import Known, Loaded, Swap, in_child, learn, load, try_anew, try_swapped

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "toolcrib"
_FEW = 3
SURVIVORS = Path(__file__).with_name("survivors.toml")
HEAVY = ("httpx2", "jsonschema_rs", "msgspec", "pydantic", "sqlite3", "starlette", "uvicorn", "uvloop")

GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "parser": (
        ("validation/codec.py", *(f"protocol/{name}.py" for name in ("messages", "engine", "modern"))),
        (
            "tests/unit/validation/test_codec.py",
            "tests/unit/validation/test_codec_limits.py",
            "tests/unit/protocol",
            "tests/property/test_wire.py",
            "tests/requirements/test_wire_requirements.py",
            *(f"tests/wire/test_{name}.py" for name in ("batches", "corpus", "eras", "flaws")),
            *(f"tests/wire/test_{name}.py" for name in ("mirrored_headers", "same_id", "sizes")),
            "tests/wire/test_where_others_leave_the_spec.py",
        ),
    ),
    "access": (
        ("policy/selectors.py", "policy/access/*.py", "schema/received.py"),
        (
            "tests/unit/policy/access",
            "tests/unit/policy/test_selectors.py",
            "tests/unit/schema/test_received.py",
            "tests/property/test_access.py",
            "tests/requirements/test_policy.py",
        ),
    ),
    "quota": (
        ("policy/quota/*.py", "dispatch/rate_limit.py"),
        (
            "tests/unit/policy/quota",
            "tests/unit/dispatch/test_rate_limit.py",
            "tests/property/test_quota.py",
            "tests/property/test_quota_stores.py",
            "tests/requirements/test_policy.py",
        ),
    ),
    "audit": (
        ("policy/audit/*.py",),
        (
            "tests/unit/policy/audit",
            "tests/unit/policy/test_enforcer.py",
            *(f"tests/unit/cli/test_audit{part}.py" for part in ("", "_settings", "_verify", "_export")),
            "tests/property/test_audit.py",
            "tests/reliability/test_audit_tampering.py",
        ),
    ),
    "dispatch": (
        ("dispatch/dispatcher.py", "dispatch/middleware.py", "policy/outcome.py"),
        (
            "tests/unit/dispatch/test_dispatcher.py",
            *(f"tests/unit/dispatch/test_dispatcher_{name}.py" for name in ("ends", "plans", "views")),
            "tests/unit/test_context.py",
            *(
                f"tests/unit/dispatch/test_{name}.py"
                for name in ("async_outcome", "conversion", "crash_log", "failures", "lifespan", "middleware")
            ),
            "tests/unit/dispatch/test_tool_search.py",
            *(f"tests/unit/policy/test_{name}.py" for name in ("confirmation", "enforcer", "outcome")),
            "tests/unit/policy/quota/test_slots.py",
            *(f"tests/requirements/test_{name}.py" for name in ("a", "policy", "t", "x", "z")),
            "tests/reliability/test_list_equals_call_versions.py",
            "tests/reliability/test_crashing_tools.py",
            *(f"tests/wire/test_{name}.py" for name in ("ends_of_calls", "mirrored_headers", "search_tools")),
        ),
    ),
    "validation": (
        tuple(f"validation/{name}.py" for name in ("limits", "schema_tree", "validator")),
        (
            *(f"tests/unit/validation/test_{name}.py" for name in ("limits", "schema_tree", "validator")),
            *(f"tests/unit/schema/test_{name}.py" for name in ("arguments", "function", "result")),
            "tests/property/test_validator.py",
            "tests/requirements/test_t.py",
            "tests/requirements/test_x.py",
        ),
    ),
    "http": (
        tuple(
            f"transports/http/{name}.py"
            for name in ("auth", "connection", "endpoint", "hosts", "request", "response", "sse")
        ),
        (
            "tests/unit/transports",
            *(f"tests/wire/test_{name}.py" for name in ("asking_http", "corpus", "eras")),
            *(f"tests/wire/test_{name}.py" for name in ("flaws", "framing", "guard", "media_types")),
            *(f"tests/wire/test_{name}.py" for name in ("mirrored_headers", "pair_http", "policy_keys")),
            *(f"tests/wire/test_{name}.py" for name in ("policy_streams", "sessions_http", "streams_http")),
            "tests/wire/test_where_others_leave_the_spec.py",
        ),
    ),
}


def files_of(group: str) -> list[Path]:
    return [path for pattern in GROUPS[group][0] for path in sorted(SOURCE.glob(pattern))]


def module_of(path: Path) -> str:
    """Return the name under which survivors are listed."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def accepted() -> dict[str, dict[str, str]]:
    return tomllib.loads(SURVIVORS.read_text()) if SURVIVORS.exists() else {}


Mutants = dict[Path, list[Mutant]]


class Run:
    """One group's mutants and their outcomes: the test that killed each, or None."""

    def __init__(self, group: str, mutants: Mutants, scratch: Path) -> None:
        self.group = group
        self.mutants = mutants
        self.ends: dict[tuple[Path, str], str | None] = {}
        self.anew: list[tuple[Path, str, dict[str, float]]] = []
        self.left_out: dict[str, str] = {}
        self._scratch = scratch
        self._began = time.monotonic()

    def go(self) -> None:
        answer = in_child(self._try_swapped, 24 * 3600, is_heard=True)
        if not isinstance(answer, tuple):
            raise SystemExit(f"{self.group}: {answer}")
        self.ends, self.anew, self.left_out = answer
        for module in HEAVY:
            with suppress(ImportError):
                import_module(module)  # once for all children
        for path, _, tests in self.anew[:1]:
            control = self._try_anew(path, ast.parse(path.read_text()), tests)
            if control is not None:
                raise SystemExit(f"{self.group}: without any mutant: {control}")
        by_name = {(path, each.name): each for path, found in self.mutants.items() for each in found}
        for path, name, tests in self.anew:
            end = self._try_anew(path, by_name[path, name].tree(), tests) if tests else None
            self._note(path, name, end)

    def _try_anew(self, path: Path, tree: ast.Module, tests: dict[str, float]) -> str | None:
        module = f"toolcrib.{module_of(path)}".removesuffix(".__init__")
        end: str | None = try_anew(module, str(path), compile(tree, str(path), "exec"), tests, self._scratch)
        return end

    def _try_swapped(self) -> Any:
        files = [str(path) for path in self.mutants]
        importing = coverage.Coverage(data_file=None, include=files, config_file=False)
        importing.start()

        def then(loaded: Loaded) -> None:
            importing.stop()
            swaps = {file: Swap(file) for file in files}
            known = learn(loaded, files)
            self.left_out = known.left_out
            control = in_child(partial(loaded.run, known.tests()), 600)
            if control is not None:
                raise RuntimeError(f"without any mutant: {control}")
            for path in self.mutants:
                used = set(importing.get_data().lines(str(path)) or ())
                self._try_file(loaded, known, path, swaps[str(path)], used)

        load(list(GROUPS[self.group][1]), self._scratch, then)
        return self.ends, self.anew, self.left_out

    def _try_file(self, loaded: Loaded, known: Known, path: Path, swap: Swap, used: set[int]) -> None:
        tree = ast.parse(path.read_text())
        for mutant in self.mutants[path]:
            lines = range(mutant.line, mutant.last_line + 1)
            tests = known.tests_of(str(path), lines)
            if len(tests) < _FEW and known.is_touched(str(path), lines):
                # only the first may have come here, where something is remembered; and it may be left out
                tests = {**tests, **known.tests_of(str(path))}
            if not mutant.is_inside or not used.isdisjoint(lines):
                users = known.tests_of(str(path), _users(tree, mutant.line))
                tests = {**known.tests_named_after(path), **(users or known.tests_of(str(path)))}
                self.anew.append((path, mutant.name, tests))
                continue
            code = compile(mutant.tree(), str(path), "exec")
            end = try_swapped(loaded, swap, code, tests) if tests else None
            if isinstance(end, ValueError):
                self.anew.append((path, mutant.name, tests))
                continue
            known.kills[end or ""] += 1
            self._note(path, mutant.name, end)

    def _note(self, path: Path, name: str, end: str | None) -> None:
        self.ends[path, name] = end
        if end is None:
            print(f"\r\033[Ksurvived  {module_of(path)}  {name}", file=sys.stderr)
        total = sum(map(len, self.mutants.values()))
        gone = time.monotonic() - self._began
        dead = sum(each is not None for each in self.ends.values())
        line = f"{self.group}: {len(self.ends)} of {total} mutants, {dead} killed, {gone:.0f} s"
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _users(tree: ast.Module, line: int) -> set[int]:
    """The lines that depend on what is made at import: those of its statement, and those that name it."""
    for statement in tree.body:
        if statement.lineno <= line <= (statement.end_lineno or line):
            made = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
            lines = set(range(statement.lineno, (statement.end_lineno or line) + 1))
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                made = {statement.name}
            used = (each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id in made)
            lines.update(each.lineno for each in used)
            return lines
    return set()


def report(run: Run, reasons: dict[str, dict[str, str]]) -> Iterator[dict[str, Any]]:
    for path, mutants in run.mutants.items():
        known = reasons.get(module_of(path), {})
        alive = [each.name for each in mutants if run.ends[path, each.name] is None]
        yield {
            "module": module_of(path),
            "made": len(mutants),
            "killed": len(mutants) - len(alive),
            "accepted": {name: known[name] for name in alive if name in known},
            "new": [name for name in alive if name not in known],
            "killed_though_accepted": [
                each.name for each in mutants if each.name in known and each.name not in alive
            ],
            "killers": {each.name: run.ends[path, each.name] for each in mutants},
        }


def main() -> int:
    options = argparse.ArgumentParser(prog="python dev.py mutate", description=__doc__)
    options.add_argument("what", nargs="*", help=f"groups ({', '.join(GROUPS)}) or source files; all groups")
    options.add_argument(
        "--sample", type=int, help="no more mutants of a group than this, chosen by the seed"
    )
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--again", type=Path, help="only the mutants that survived in this earlier --json file"
    )
    options.add_argument("--json", type=Path, help="write what became of every mutant to this file")
    asked = options.parse_args()
    wanted = {Path(what).resolve() for what in asked.what if what not in GROUPS}
    reasons = accepted()
    reports: dict[str, list[dict[str, Any]]] = {}
    for group in GROUPS:
        every = group in asked.what or not asked.what
        files = [path for path in files_of(group) if every or path in wanted]
        if not files:
            continue
        wanted.difference_update(files)
        mutants = {path: list(mutants_of(path.read_text())) for path in files}
        if asked.again is not None:
            mutants = survivors_of(json.loads(asked.again.read_text()).get(group, []), mutants)
        if asked.sample is not None:
            mutants = sample(mutants, asked.sample, asked.seed)
        with tempfile.TemporaryDirectory() as folder:
            run = Run(group, mutants, Path(folder) / "scratch")
            run.go()
        print("\r\033[K", end="", file=sys.stderr)
        for test, why in run.left_out.items():
            if why.startswith("fails"):
                print(f"left out, for it {why}: {test}", file=sys.stderr)
        reports[group] = list(report(run, reasons))
        show(group, reports[group])
        if asked.json is not None:
            asked.json.write_text(json.dumps(reports, indent=1))
    if wanted:
        options.error(f"not in any group: {', '.join(map(str, wanted))}")
    return int(any(each["new"] for found in reports.values() for each in found))


def survivors_of(earlier: list[dict[str, Any]], mutants: Mutants) -> Mutants:
    alive = {each["module"]: {*each["accepted"], *each["new"]} for each in earlier}
    return {
        path: [m for m in found if m.name in alive.get(module_of(path), ())]
        for path, found in mutants.items()
    }


def sample(mutants: Mutants, size: int, seed: int) -> Mutants:
    pairs = [(path, each.name) for path, found in mutants.items() for each in found]
    chosen = set(random.Random(seed).sample(pairs, min(size, len(pairs))))
    return {path: [m for m in found if (path, m.name) in chosen] for path, found in mutants.items()}


def show(group: str, found: list[dict[str, Any]]) -> None:
    for each in found:
        for name in each["new"]:
            print(f"{each['module']}: survived: {name}")
        for name in each["killed_though_accepted"]:
            print(f"{each['module']}: no longer survives: {name}")
    made, killed = (sum(each[key] for each in found) for key in ("made", "killed"))
    new = sum(len(each["new"]) for each in found)
    print(
        f"{group}: {made} made, {killed} killed ({killed / max(made, 1):.1%}),",
        f"{new} of the rest without a reason",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
