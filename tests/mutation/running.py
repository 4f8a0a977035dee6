"""Run tests against mutants, each in a forked child that applies the mutation once the tests are loaded.

A mutant in the body of a
function replaces that function's code. One in code that runs on import needs the modules imported again, so
its child is forked before they are imported, which takes a second.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import os
import pickle
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import coverage
import pytest

SLOWEST_S = 4.0
"""Tests that take longer are left out, as are those that start a process: that would have no mutant in it."""
ENOUGH_S = 30.0
"""Of the tests that touch a line, the quickest are taken until they take so long together."""
_STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.forkpty")
_UNREWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"  # of what was imported for all children
_LIKELY = 4  # are tried first; the others keep their order, in which fixtures are made once
_MEMORY = 4 * 1024**3
_PLAIN = ("-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist", "-W", _UNREWRITTEN)
_thaw = gc.unfreeze  # the tests' own setting up takes it away


class Known:
    """The lines that each test runs, and its time."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, set[str]]] = {}
        self.at_import: dict[str, set[int]] = {}
        self.took_s: dict[str, float] = {}
        self.left_out: dict[str, str] = {}
        self.kills: Counter[str] = Counter()

    def tests(self) -> dict[str, float]:
        """All that are not left out, and their times."""
        return {test: took_s for test, took_s in self.took_s.items() if test not in self.left_out}

    def tests_named_after(self, file: Path) -> dict[str, float]:
        """Return the tests in the file that mirrors a module: they may use only its constants."""
        mirror = f"/test_{file.stem}.py::"
        return {test: took_s for test, took_s in self.tests().items() if mirror in test}

    def is_touched(self, file: str, lines: Iterable[int]) -> bool:
        """Return whether any test runs these lines, including those left out."""
        return any(self.lines.get(file, {}).get(line) for line in lines)

    def tests_of(self, file: str, lines: Iterable[int] | None = None) -> dict[str, float]:
        """Return the tests that run one of these lines, the most specific first, and their times."""
        touched = self.lines.get(file, {})
        looked_at = touched if lines is None else lines
        found = {test for line in looked_at for test in touched.get(line, ())} - self.left_out.keys()
        chosen: dict[str, float] = {}
        for test in sorted(found, key=lambda test: (self.took_s[test] / (1 + self.kills[test]), test)):
            chosen[test] = self.took_s[test]
            if sum(chosen.values()) > ENOUGH_S:
                break
        likely = sorted(chosen, key=lambda test: (-self.kills[test], chosen[test]))[:_LIKELY]
        others = [test for test in self.took_s if test in chosen and test not in likely]
        return {test: chosen[test] for test in (*likely, *others)}


class Loaded:
    """Tests that are loaded but not run, in this process; a pytest plugin."""

    def __init__(self, then: Callable[[Loaded], None]) -> None:
        self.items: dict[str, pytest.Item] = {}
        self.failed: list[str] = []
        self.trouble: Exception | None = None
        self._then = then

    def pytest_configure(self) -> None:
        import hypothesis  # not before pytest has had the chance to rewrite it

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        quick: dict[str, Any] = {"max_examples": 40, "derandomize": True, "database": None, "deadline": None}
        every = list(hypothesis.HealthCheck)
        hypothesis.settings.register_profile("mutants", phases=phases, suppress_health_check=every, **quick)
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = {item.nodeid: item for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self) -> bool:
        try:
            self._then(self)
        except Exception as error:
            self.trouble = error  # pytest would only print it
        return True

    def run(self, tests: dict[str, float]) -> str | None:
        """Return the first of these tests that fails. One that takes far too long ends this process."""
        items = [self.items[test] for test in tests if test in self.items]
        for item, following in zip_longest(items, items[1:]):
            signal.setitimer(signal.ITIMER_REAL, 5 + 5 * tests[item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return self.failed[0]
        return None


def load(paths: list[str], scratch: Path, then: Callable[[Loaded], None]) -> None:
    """Load the tests at these paths and pass them on."""
    loaded = Loaded(then)
    code = pytest.main([*_PLAIN, f"--basetemp={scratch}", *paths], plugins=[loaded])
    if not loaded.items:
        raise RuntimeError(f"no tests could be loaded: {code!r}, {loaded.failed}")
    if loaded.trouble is not None:
        raise loaded.trouble


def learn(loaded: Loaded, files: list[str]) -> Known:
    """Run every test once in a child, and record the lines it runs."""
    answer = in_child(lambda: _learn(loaded, files), 3600)
    if not isinstance(answer, Known):
        raise RuntimeError(f"the tests could not be run: {answer}")
    return answer


def _learn(loaded: Loaded, files: list[str]) -> Known:
    known = Known()
    measured = coverage.Coverage(data_file=None, include=files, config_file=False)
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in _STARTS else None)
    measured.start()
    items = list(loaded.items.values())
    for item, following in zip_longest(items, items[1:]):
        measured.switch_context(item.nodeid)
        started.clear()
        loaded.failed.clear()
        began = time.perf_counter()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        known.took_s[item.nodeid] = time.perf_counter() - began
        if loaded.failed:
            known.left_out[item.nodeid] = "fails without any mutant"
        elif started:
            known.left_out[item.nodeid] = "starts a process"
        elif known.took_s[item.nodeid] > SLOWEST_S:
            known.left_out[item.nodeid] = "is slow"
    measured.stop()
    data = measured.get_data()
    for file in files:
        touched = data.contexts_by_lineno(file).items()
        known.lines[file] = {line: set(tests) - {""} for line, tests in touched}
    return known


class Swap:
    """The functions of an imported module, whose code can be replaced by that of a mutant."""

    def __init__(self, file: str) -> None:
        self._living: dict[tuple[str, int, int], list[FunctionType]] = defaultdict(list)
        original = compile(Path(file).read_text(), file, "exec")
        keys = {_spot(code): key for key, code in _codes(original).items()}
        _thaw()  # what is frozen cannot be found
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename == file:
                self._living[keys[_spot(each.__code__)]].append(each)

    def put(self, mutated: CodeType) -> None:
        """Raise ValueError if no function has changed, or one cannot take its new code."""
        new = _codes(mutated)
        changed = [
            (function, new[key])
            for key, living in self._living.items()
            for function in living
            if key in new and function.__code__ != new[key]
        ]
        if not changed:
            raise ValueError("none of the functions there are has changed")
        for function, code in changed:
            function.__code__ = code


def _spot(code: CodeType) -> tuple[str, int, tuple[Any, ...]]:
    return code.co_qualname, code.co_firstlineno, tuple(code.co_positions())[:3]


def _codes(module: CodeType) -> dict[tuple[str, int, int], CodeType]:
    """Every code object of a module by name, line, and which of those on one line it is."""
    found: dict[tuple[str, int, int], CodeType] = {}
    seen: Counter[tuple[str, int]] = Counter()
    waiting = [module]
    for code in waiting:  # grows on the way
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                at = (inner.co_qualname, inner.co_firstlineno)
                found[(*at, seen[at])] = inner
                seen[at] += 1
                waiting.append(inner)
    return found


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from given code."""

    def __init__(self, name: str, file: str, code: CodeType) -> None:
        self._name, self._file, self._code = name, file, code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        is_package = self._file.endswith("__init__.py")
        places = [str(Path(self._file).parent)] if is_package else None
        return importlib.util.spec_from_file_location(
            fullname, self._file, loader=self, submodule_search_locations=places
        )

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def try_swapped(loaded: Loaded, swap: Swap, code: CodeType, tests: dict[str, float]) -> Any:
    """Return the test that kills a mutant in a function, or None. May raise ValueError."""

    def attempt() -> Any:
        try:
            swap.put(code)
        except ValueError as error:
            return error
        return loaded.run(tests)

    return in_child(attempt, 600)


def try_anew(module: str, file: str, code: CodeType, tests: dict[str, float], scratch: Path) -> Any:
    """The same, with every module imported again."""

    def attempt() -> Any:
        sys.meta_path.insert(0, _Instead(module, file, code))
        failed: list[str | None] = []
        paths = sorted({test.partition("::")[0] for test in tests})
        signal.setitimer(signal.ITIMER_REAL, 60)
        load(paths, scratch, lambda loaded: failed.append(loaded.run(tests)))
        return failed[0] if failed else "importing it"

    return in_child(attempt, 600)


def in_child(work: Callable[[], Any], limit_s: float, *, is_heard: bool = False) -> Any:
    """Return the result of `work` in a forked process, or a message if it failed."""
    reading, writing = os.pipe()
    gc.freeze()
    child = os.fork()
    if child == 0:
        _work_and_end(work, writing, is_heard)
    os.close(writing)
    try:
        answer = b"".join(_received(reading, time.monotonic() + limit_s))
    except TimeoutError:
        return "took too long"
    finally:
        os.close(reading)
        _end(child)
    return pickle.loads(answer) if answer else "the process ended"


def _work_and_end(work: Callable[[], Any], writing: int, is_heard: bool) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1) if is_heard else (0, 1, 2):
        os.dup2(silence, stream)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        answer = pickle.dumps(work())
    except BaseException as error:  # SystemExit too: whatever a mutant does, it must not go on as its parent
        answer = pickle.dumps(f"raised {type(error).__name__}: {error}"[:300])
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)


def _received(reading: int, until: float) -> Iterator[bytes]:
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        data = os.read(reading, 1 << 20)
        if not data:
            return
        yield data


def _end(child: int) -> None:
    """End a child process and its descendants."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)  # it has no group of its own yet
    os.waitpid(child, 0)
