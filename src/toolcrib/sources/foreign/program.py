"""Run programs that start a server of `mcp` or `fastmcp`.

    python server.py ARGS        find_program(parse_target("server.py"))
    python -m weather ARGS       find_program(parse_target("weather"))
    mcp-server-time ARGS         find_program(parse_target("mcp-server-time"))
    server.py:main               function_program(main, "server.py:main", ARGS)

A program runs on a thread of its own until toolcrib stops. `interception` takes the server that it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import io
import logging
import os
import shlex
import shutil
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StartTimeout
from contextvars import Context as Variables
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolcrib.errors import DefinitionError, Location, SourceError
from toolcrib.schema.parameters import find_function, locate
from toolcrib.sources.foreign import interception
from toolcrib.sources.foreign.entry_point import (
    command_function,
    has_relative_imports,
    is_callable,
    is_program,
    mentions_mcp,
    parse,
    uses_toolcrib,
)
from toolcrib.sources.foreign.recognition import is_server
from toolcrib.sources.loading import (
    add_import_path,
    explain,
    find_import_root,
    find_python_files,
    import_machinery,
)
from toolcrib.sources.objects import registry_of
from toolcrib.sources.targets import Target

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("toolcrib")

START_S = 60.0
"""How long a program may take to start its server."""
STOP_S = 5.0
"""How long it may take to end when its server has stopped."""
MAX_FILES = 200
"""The number of files of a package that are searched for a mention of MCP."""
import_machinery.add(__file__)


# --- the program that a target names -----------------------------------------------------------------


def find_program(target: Target) -> Program | None:
    """Return the program that a target names, or None if it has no entry point or uses neither library."""
    arguments = target.arguments or ()
    if target.kind == "script":
        return _find_script(target.text, arguments, target.path)
    if target.name:
        return None  # what it names is known when it is imported
    if target.kind == "module":
        return _find_module(target.text, arguments)
    if target.kind == "folder" and target.path is not None:
        return _find_package(target.path, target.text, arguments)
    if target.kind == "file" and target.path is not None and is_program(target.path):
        return file_program(target.path, target.text, arguments)
    return None


def file_program(path: Path, label: str, arguments: Sequence[str]) -> Program:
    """Return a file as a program, whether it looks like one or not. `label` is how the user named it."""
    path = path.resolve()
    package = ".".join(find_import_root(path)[1][:-1]) if has_relative_imports(path) else ""
    return Program(label, (str(path), *arguments), lambda: _run_file(path, package), path)


def _find_package(folder: Path, label: str, arguments: Sequence[str]) -> Program | None:
    main = folder / "__main__.py"
    files = list(find_python_files(folder))[:MAX_FILES] if main.is_file() else []
    trees = [tree for file in (main, *files) if files and (tree := parse(file)) is not None]
    if not files or any(map(uses_toolcrib, trees)) or not any(map(mentions_mcp, (main, *files))):
        return None
    return file_program(main, label, arguments)


def _find_module(name: str, arguments: Sequence[str]) -> Program | None:
    add_import_path(Path.cwd(), first=True)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None  # importing it says why
    if spec is None:
        return _find_script(name, arguments)
    for location in spec.submodule_search_locations or ():
        return _find_package(Path(location), name, arguments)
    path = Path(spec.origin or "")
    return file_program(path, name, arguments) if path.suffix == ".py" and is_program(path) else None


def is_script(name: str) -> bool:
    """Return whether an installed package has a console script of this name."""
    return bool(_console_scripts(name))


def _console_scripts(name: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points  # start-up time: few programs have such a server

    return [*entry_points(group="console_scripts", name=name)]


def _find_script(label: str, arguments: Sequence[str], path: Path | None = None) -> Program | None:
    """Return a console script by its name, or by its path in this environment."""
    name = label if path is None else path.name.removesuffix(".exe")
    script = next(iter(_console_scripts(name)), None)
    if path is not None and (script is None or path.resolve().parent != _scripts_folder()):
        hint = "install its package in the environment of toolcrib, or toolcrib in its environment"
        raise SourceError(f"{label} is not a console script of this Python environment", hint=hint)
    if script is None:
        return None

    def call() -> Any:
        return script.load()()

    return Program(label, (shutil.which(name) or name, *arguments), call)


def _scripts_folder() -> Path:
    return Path(sysconfig.get_path("scripts")).resolve()


def function_program(function: Any, label: str, arguments: Sequence[str]) -> Program:
    """Return a function as a program. Raise SourceError where it needs arguments."""
    place = locate(find_function(command_function(function)))
    if not is_callable(function):
        hint = "name the file that starts the server, or a function without arguments"
        raise SourceError(f"{label} cannot be called without arguments", source=place, hint=hint)
    file = place.file or label
    return Program(label, (file, *arguments), function, Path(file))


# --- running it --------------------------------------------------------------------------------------


def _run_file(path: Path, package: str) -> ModuleType:
    """Run a file as `__main__`, with its folder first on the import path, and return its module."""
    add_import_path(path.parent, first=True)
    if package:
        add_import_path(find_import_root(path)[0])
    module = ModuleType("__main__")
    module.__dict__.update(__file__=str(path), __package__=package or None)
    sys.modules["__main__"] = module
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module


@dataclass(frozen=True, slots=True)
class Started:
    """The result of running a program: the server that it started or returned, with the event loop if one was
    running, and the context variables; or else its module, if it is a file that started none."""

    server: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    module: ModuleType | None = None
    variables: Variables = field(default_factory=copy_context)

    def set_variables(self) -> None:
        """Set the context variables of the program here, so that tools see them as under their library."""
        for variable, value in self.variables.items():
            if not variable.name.startswith("toolcrib_"):
                variable.set(value)


class Program:
    """Code that starts a server. `start` runs it until it does, and `stop` until it ends."""

    def __init__(
        self, label: str, argv: Sequence[str], call: Callable[[], Any], path: Path | None = None
    ) -> None:
        self.label = label
        self.path = path
        self.server: Any = None
        self.applications: list[tuple[Any, Any]] = []
        """Servers with the HTTP applications that they have made."""
        self.others: list[str] = []
        """The names of servers that it started besides, which are not served."""
        self.has_owner = False
        """Whether its tools have a `ProgramOwner`, which stops it."""
        self._argv = list(argv)
        self._call = call
        self._started: Future[Started] = Future()
        self._over = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._thread = threading.Thread(target=self._run, name=f"toolcrib: {label}", daemon=True)
        self._before = sys.modules["__main__"], sys.argv

    def start(self) -> Started:
        """Run the program until it has started a server. Raise SourceError where it does not."""
        interception.install()
        interception.ignore_signals()
        interception.hosts.append(self)
        sys.argv = self._argv
        try:
            with _no_input():
                self._thread.start()
                started = self._started.result(START_S)
        except StartTimeout:
            self.stop(wait_s=0)
            text = f"{self._subject} did not start a server within {START_S:g} s"
            hint = "it must call run() of mcp or fastmcp; a server object can be named: file.py:server"
            raise SourceError(text, source=self._place, hint=hint) from None
        except BaseException as error:
            self.stop(wait_s=STOP_S if isinstance(error, Exception) else 0)
            raise
        finally:
            interception.hosts.remove(self)
        _running.append(self)
        self.server = started.server
        if started.loop is not None:  # servers that are started together are started in one turn of the loop
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), started.loop).result(STOP_S)
        return started

    def stop(self, wait_s: float = STOP_S) -> None:
        """Make `run` return in the program, and wait until the program ends."""
        self._over.set()
        for loop, event in self._waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(event.set)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(wait_s)
        if self in _running:
            _running.remove(self)
            if wait_s and self._thread.is_alive():
                logger.warning("%s has not ended within %g s", self.label, wait_s)
        if sys.argv is self._argv:  # else another program was run since
            sys.modules["__main__"], sys.argv = self._before

    @property
    def _subject(self) -> str:
        return self.label if self.path is None else "The program"  # the place is shown in front of it

    @property
    def _place(self) -> Location:
        return Location(None if self.path is None else str(self.path))

    # --- on its thread ---

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)  # the main thread has one, and some programs ask for it
        try:
            copy_context().run(self._work)
        finally:
            loop.close()

    def _work(self) -> None:
        interception.current.set(self)
        try:
            result = self._call()
            if inspect.iscoroutine(result):
                asyncio.run(self._await(result))
            elif _can_be_served(result):
                self.serve(result)
            elif not self._started.done():
                self._end(result)
        except BaseException as error:
            self._fail(error)

    async def _await(self, result: Any) -> None:
        server = await result
        if _can_be_served(server):
            await self.serve_here(server)
        elif not self._started.done():
            self._end(server)

    def _end(self, result: Any) -> None:
        if isinstance(result, ModuleType):
            self._started.set_result(Started(module=result))
        else:
            raise SourceError(f"{self._subject} ended without starting a server", source=self._place)

    def _fail(self, error: BaseException) -> None:
        if not self._started.done():
            problem = self._explain(error)
            if problem is not error:
                problem.__context__ = error  # for --debug
            self._started.set_exception(problem)
        elif not isinstance(error, SystemExit):
            logger.error("%s has failed: %s: %s", self.label, type(error).__name__, error, exc_info=error)

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, DefinitionError):
            return error
        if isinstance(error, SystemExit):
            text = f"{self._subject} exited with code {_code_of(error)} before it started a server"
            hint = f"give its arguments after --: toolcrib serve {self.label} -- ARGUMENTS"
            if len(self._argv) > 1:
                hint = f"check the arguments after --: {shlex.join(self._argv[1:])}"
            return SourceError(text, source=self._place, hint=hint)
        return explain(self.label if self.path is None else self.path.name, error, self.path, "run")

    def serve(self, server: Any) -> None:
        self._take(Started(server))
        self._over.wait()

    async def serve_here(self, server: Any) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._waiting.append((loop, event))
        self._take(Started(server, loop))
        if not self._over.is_set():
            await event.wait()

    def _take(self, started: Started) -> None:
        """Serve the first server that the program starts, and report any other."""
        if not self._started.done():
            self._started.set_result(started)
        elif not self._over.is_set():
            self.others.append(started.server.name)
            logger.warning(
                "%s starts another server, '%s', which is not served", self.label, started.server.name
            )


def _can_be_served(thing: Any) -> bool:
    return is_server(thing) or registry_of(thing) is not None


def _code_of(error: SystemExit) -> int:
    return 0 if error.code is None else error.code if isinstance(error.code, int) else 1


_running: list[Program] = []


def running_programs() -> list[Program]:
    """Return the programs that were started and not stopped yet."""
    return list(_running)


def stop_programs() -> None:
    """Stop all programs, and end the lifespans that listing has entered: the command is over."""
    bridge = sys.modules.get("toolcrib.sources.foreign.bridge")  # loaded only where a server was adopted
    if bridge is not None:
        bridge.end_lifespans()
    while _running:
        _running[-1].stop()


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    """Give a program and its child processes an empty standard input: the real one may be a client's."""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        kept = os.dup(0)
    except OSError:
        kept = -1  # there is none
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    try:
        yield
    finally:
        os.close(empty)
        if kept >= 0:
            os.dup2(kept, 0)
            os.close(kept)
        sys.stdin = before


class ProgramOwner:
    """The owner of the tools of a program. It is opened on the loop that the server was started on, and
    closing it ends the program."""

    def __init__(self, program: Program, loop: asyncio.AbstractEventLoop | None, inner: Any) -> None:
        self.server = program.server
        self.name: str = program.server.name
        program.has_owner = True
        self._program = program
        self._loop = loop
        self._inner = inner

    async def open(self) -> None:
        await self._call("open")

    async def close(self) -> None:
        try:
            await self._call("close")
        finally:
            await asyncio.to_thread(self._program.stop)

    async def _call(self, name: str) -> None:
        method = getattr(self._inner, name, None)
        if method is None:
            return
        if self._loop is None or self._loop is asyncio.get_running_loop() or self._loop.is_closed():
            await method()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(method(), self._loop))
