"""What in a module is a tool: marked functions, applications, tool objects, servers, tables.

Only what the module itself makes counts, or names in `__all__`: an import must not publish a stranger's tool.
Servers and registries, those of mcp and fastmcp too, are the exception, because a module adds tools to those
it imports. Knows modules as
they are after importing; makes no tools.

Imports modules by name, file or folder, and says what went wrong where.

A file is imported under the name Python would give it, so that files beside it can import it and each other.
Where that name means something else already, it is loaded under a name of its own: two files called
`tools.py` do not collide. The folder of a file is put at the end of the import path: a user's `calendar.py`
must not become everybody's. Knows the import system; refuses to know tools.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from toolcrib.errors import ConfigurationError, DefinitionError, Finding, Location, SourceError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.schema.parameters import locate
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.sources.foreign.recognition import is_low_level, library_of
from toolcrib.sources.tables import DEFINITION_TABLES, HANDLER_TABLE
from toolcrib.tool import Tool, is_marked, is_tool_object

_SKIPPED = {"__pycache__", "dist-packages", "node_modules", "site-packages"}
_PRODUCTS = {"build", "dist"}  # copies of the sources, where a project is built
_PROJECT_FILES = ("pyproject.toml", "setup.py")
_loading: ContextVar[str | None] = ContextVar("toolcrib_loading", default=None)

_may_run: ContextVar[bool] = ContextVar("toolcrib_may_run", default=True)

added_roots: set[str] = set()
"""The folders that were put on the import path here, and nowhere else."""
spec_listeners: list[Callable[[ModuleSpec], None]] = []
"""Who sees how a file is about to be loaded under a name of its own: no finder is asked about those."""
machinery: set[str] = {__file__, str(importlib.__file__)}
"""Files that take part in every import, so that no error is theirs."""


def currently_loading() -> str | None:
    """The file or module whose import is under way because tools were asked of it."""
    return _loading.get()


def load_module(name: str) -> ModuleType:
    """Import a module by its dotted name, from the current folder too."""
    if name.partition(".")[0] != "toolcrib":  # which runs already
        _refuse_where_nothing_runs(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    return _import(name, name)


def load_file(path: Path) -> ModuleType:
    """Import a Python file. Files beside it can be imported as they would in a script."""
    _refuse_where_nothing_runs(str(path))
    path = path.resolve()
    root, parts = place_of(path)
    if str(root) not in sys.path:
        sys.path.append(str(root))
        added_roots.add(str(root))
    if _means(parts[0], root, path):
        return _import(".".join(parts), str(path), path)
    if path.parent == root:
        return _load_as(_private_name(path), path)
    package = root / parts[0]
    top = _private_name(package)
    _load_as(top, package / "__init__.py", package)
    return _import(".".join((top, *parts[1:])), str(path), path)


def python_files(folder: Path, tell: Callable[[OSError], None] | None = None) -> list[Path]:
    """Every Python file below a folder, in a stable order; not those in hidden, vendored and built folders.

    Links to folders are not followed, so there is no way in circles. `tell` hears of folders that cannot be
    read.
    """
    found = _walk(folder, tell)
    return sorted(here / name for here, names in found for name in names if _is_source(here / name))


def source_folders(folder: Path) -> list[Path]:
    """The folder and every folder below it where `python_files` looks."""
    return [here for here, _ in _walk(folder)]


def place_of(path: Path) -> tuple[Path, list[str]]:
    """The folder a file is imported from, and the parts of its dotted name."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, parts


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Within, no file and no module is loaded: a reader of source must not run what it reads, whatever it
    comes upon."""
    token = _may_run.set(False)
    try:
        yield
    finally:
        _may_run.reset(token)


def _refuse_where_nothing_runs(what: str) -> None:
    if not _may_run.get():
        raise SourceError(f"{what} would have to be imported", hint="name it as a target of its own")


def submodules(package: ModuleType) -> Iterator[str]:
    """The dotted names of all modules below a package, without importing them."""
    for location in getattr(package, "__path__", ()):
        root = Path(location)
        for path in python_files(root):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if parts:
                yield ".".join((package.__name__, *parts))


# --- finding -----------------------------------------------------------------------------------------


def _walk(folder: Path, tell: Callable[[OSError], None] | None = None) -> Iterator[tuple[Path, list[str]]]:
    for place, folders, files in os.walk(folder, onerror=tell):
        here = Path(place)
        is_project = any(name in files for name in _PROJECT_FILES)
        folders[:] = [name for name in folders if not _is_skipped(here / name, is_project)]
        yield here, files


def is_foreign(folder_name: str) -> bool:
    """Whether a folder of this name holds what its neighbours did not write."""
    return folder_name.startswith(".") or folder_name in _SKIPPED


def _is_skipped(folder: Path, in_project: bool) -> bool:
    name = folder.name
    return is_foreign(name) or (in_project and name in _PRODUCTS) or os.path.exists(folder / "pyvenv.cfg")


def _is_source(path: Path) -> bool:
    return path.suffix == ".py" and not path.name.startswith(".") and path.name != "__main__.py"


def _means(name: str, root: Path, path: Path) -> bool:
    """Whether `import name` would find what lies in `root`, and nothing else."""
    if not name.isidentifier():
        return False
    try:
        spec = importlib.util.find_spec(name)
        if spec is None:  # a file that was written just now
            importlib.invalidate_caches()
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False  # a module that was made by hand
    if spec is None:
        return False
    if spec.submodule_search_locations is None:
        return spec.origin is not None and Path(spec.origin).resolve() == path
    return any(Path(place).resolve() == root / name for place in spec.submodule_search_locations)


def _private_name(path: Path) -> str:
    digest = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:10]
    return f"toolcrib_{digest}_{''.join(letter if letter.isalnum() else '_' for letter in path.name)}"


# --- importing ---------------------------------------------------------------------------------------


def _import(name: str, what: str, path: Path | None = None) -> ModuleType:
    token = _loading.set(what)
    try:
        return importlib.import_module(name)
    except BaseException as error:
        raise _explain(name, what, path, error) from None
    finally:
        _loading.reset(token)


def _load_as(name: str, path: Path, folder: Path | None = None) -> ModuleType:
    """Load a file as a module of this name; with `folder`, as the package that lives there."""
    if name in sys.modules:
        return sys.modules[name]
    places = None if folder is None else [str(folder)]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} is not a Python file", source=Location(str(path)))
    for listener in spec_listeners:
        listener(spec)
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__toolcrib_file__"] = str(path)  # another process has to load it in the same way
    sys.modules[name] = module
    token = _loading.set(str(path))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        raise _explain(name, str(path), path, error) from None
    finally:
        _loading.reset(token)
    return module


def _explain(name: str, what: str, path: Path | None, error: BaseException) -> DefinitionError:
    """The user's own error, with the user's own file and line."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    file = None if path is None else str(path)
    if isinstance(error, DefinitionError):  # a tool was refused where the module registers it
        if error.source.file is None:
            error.source = _find_line(error, file)
        return error
    if isinstance(error, ModuleNotFoundError) and path is None and _is_missing(name, error.name):
        return SourceError(
            f"There is no module '{name}'", hint="give a file, a folder, a module or module:object"
        )
    if isinstance(error, SyntaxError):
        where = Location(error.filename or file, error.lineno)
        return SourceError(f"{where.file or what} has a syntax error: {error.msg}", source=where)
    words = f"{what} cannot be imported: {type(error).__name__}: {error}"
    where, origin = _find_line(error, file), _find_line(error, None)
    if path is not None and origin.file is not None and _is_beside(Path(origin.file), path):
        words += f" (at {origin})"
    return SourceError(words, source=where, hint=_advise(error))


def _is_missing(name: str, missing: str | None) -> bool:
    return missing is not None and (name == missing or name.startswith(f"{missing}."))


def _is_beside(other: Path, path: Path) -> bool:
    """Whether it is another file, of the same author by all appearances."""
    root = place_of(path)[0]
    return (
        other != path
        and other.is_relative_to(root)
        and not any(map(is_foreign, other.relative_to(root).parts))
    )


def _find_line(error: BaseException, file: str | None) -> Location:
    """The last line of the file itself that the error came through, else the last line there is."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename not in machinery
    ]
    chosen = [frame for frame in frames if frame.filename == file] or frames
    return Location(chosen[-1].filename, chosen[-1].lineno) if chosen else Location(file)


def _advise(error: BaseException) -> str | None:
    if isinstance(error, SystemExit):
        return 'put what ends the program below `if __name__ == "__main__":`'
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "put an empty __init__.py beside it, so that its folder is a package"
    if isinstance(error, ImportError):
        return "install it, or mend the import"
    return error.hint if isinstance(error, ConfigurationError) else None


GROUP = "TOOL_GROUP"
_PARTS = ("name", "description", "input_schema", "execute")
_OTHER_PARTS = ("Name", "Description", "InputSchema", "ExecuteAsync")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(slots=True)
class Found:
    """What a module offers. `tables` are its tables of definitions, `group` is its TOOL_GROUP."""

    things: list[Any] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    handlers: Mapping[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    group: str | None = None


def find_tools(module: ModuleType) -> Found:
    """Everything in a module that is a tool or holds tools, in the order it is written."""
    members = vars(module)
    found = Found(group=members.get(GROUP))
    found.tables = [members[name] for name in DEFINITION_TABLES if name in members]
    handlers = members.get(HANDLER_TABLE, {})
    if isinstance(handlers, Mapping):
        found.handlers = handlers
    else:
        text = f"{HANDLER_TABLE} must be a dict, got {type(handlers).__name__}"
        found.findings.append(Finding("table-mismatch", "error", text, file=_file_of(module)))
    taken = {GROUP, HANDLER_TABLE, *DEFINITION_TABLES}
    strangers = _Strangers(module)
    instances: set[type] = set()
    classes: list[type] = []
    for name, thing in list(members.items()):
        if name in taken or name.startswith("__") or isinstance(thing, ModuleType):
            continue
        if isinstance(thing, type):
            if thing.__module__ == module.__name__ and _is_complete(thing):
                classes.append(thing)
        elif _is_server(thing) or (_is_tool(thing) and not strangers.include(name, thing)):
            found.things.append(thing)
            instances.add(type(thing))
        elif is_low_level(thing):
            found.findings.append(_no_functions(module, name))
    for cls in classes:
        if cls not in instances:
            _take_class(found, cls)
    return found


def registry_of(thing: Any) -> ToolRegistry | None:
    """The registry that a server has, or that the thing itself is."""
    registry = thing if isinstance(thing, ToolRegistry) else _look(thing, "registry")
    return registry if isinstance(registry, ToolRegistry) else None


def _is_server(thing: Any) -> bool:
    """Whether this is a server or a registry, of ours or of another library."""
    return registry_of(thing) is not None or library_of(thing) is not None


def drop_owned(parts: Sequence[Found]) -> None:
    """A class whose instance some server here has tools of is not made a second time."""
    registries = [
        registry_of(thing) for part in parts for thing in part.things if not isinstance(thing, type)
    ]
    entries = [entry for registry in registries if registry is not None for entry in registry.entries()]
    owners = {type(entry.tool.owner) for entry in entries if entry.tool.owner is not None}
    for part in parts:
        part.things = [thing for thing in part.things if not (isinstance(thing, type) and thing in owners)]


def drop_mounted(parts: Sequence[Found]) -> None:
    """Servers of another library may be mounted in each other; one that is is served through the other."""
    servers = [thing for part in parts for thing in part.things if library_of(thing) == "fastmcp"]
    if len(servers) < 2:
        return
    # Only who has several waits for what it takes to look into them.
    from toolcrib.sources.foreign.fast import mounted_in

    inner = {id(child) for server in servers for child in mounted_in(server)}
    for part in parts:
        part.things = [thing for thing in part.things if id(thing) not in inner]


def _no_functions(module: ModuleType, name: str) -> Finding:
    text = f"'{name}' is a low-level server of mcp, which has handlers and no tools that could be taken"
    hint = "give toolcrib the functions; toolcrib.transports.mcp_sdk puts its tools on that server"
    return Finding("low-level-server", "warning", text, file=_file_of(module), hint=hint)


def is_application(thing: Any) -> bool:
    """Whether it lists tools; a client that asks a server for them, which takes waiting, is none."""
    lister = _look(thing, "list_tools")
    return callable(lister) and not inspect.iscoroutinefunction(lister)


def _is_tool(thing: Any) -> bool:
    """Whether this is a tool or holds some. Anything may stand in a module, also what bears no looking at."""
    try:
        return (
            isinstance(thing, Tool)
            or (is_marked(thing) and callable(thing))
            or is_application(thing)
            or is_tool_object(thing)
        )
    except Exception:
        return False


def _look(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:
        return None  # a proxy that is not ready


# --- strangers ---------------------------------------------------------------------------------------


class _Strangers:
    """What a module has by importing it. The source says so; without one, a thing's own module does."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._public = set(getattr(module, "__all__", ()))
        self._imported: set[str] | None = None

    def include(self, name: str, thing: Any) -> bool:
        if name in self._public:
            return False
        if self._imported is None:
            self._imported = _imported_names(self._module)
        if "*" in self._imported:
            return bool(_look(thing, "__module__") != self._module.__name__)
        return name in self._imported


def _imported_names(module: ModuleType) -> set[str]:
    """Names that a module has from import statements alone; `*` where that cannot be said."""
    try:
        tree = ast.parse(Path(_file_of(module) or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {"*"}
    imported: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, _DEFINITIONS):
            imported.discard(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            imported -= {node.id for node in ast.walk(statement) if _is_bound(node)}
        else:
            imported |= _names_in(statement)
    return imported


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _names_in(statement: ast.AST) -> set[str]:
    """Names that a statement imports into the module: inside `if` and `try`, not inside definitions."""
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    if isinstance(statement, ast.expr | _DEFINITIONS):
        return set()
    return set().union(*(_names_in(part) for part in ast.iter_child_nodes(statement)))


# --- classes -----------------------------------------------------------------------------------------


def is_tool_class(cls: type) -> bool:
    """Whether instances of this class are tool objects or applications."""
    if cls in (Application, APIApplication):
        return False
    if is_application(cls):
        return True
    return all(hasattr(cls, part) for part in _PARTS) or all(hasattr(cls, part) for part in _OTHER_PARTS)


def _is_complete(cls: type) -> bool:
    """Whether a class is there to be used, and not to be inherited from."""
    if not is_tool_class(cls) or inspect.isabstract(cls) or cls.__name__.startswith("_"):
        return False
    return is_application(cls) or bool(getattr(cls, "name", None) or getattr(cls, "Name", None))


def _take_class(found: Found, cls: type) -> None:
    """A class is taken where it can be made without arguments; else its author is told."""
    try:
        inspect.signature(cls).bind()
    except TypeError:
        where = locate(cls)
        text = f"{cls.__name__} holds tools but cannot be made without arguments"
        hint = "make an instance in the module"
        found.findings.append(
            Finding("needs-arguments", "advice", text, file=where.file, line=where.line, hint=hint)
        )
        return
    except ValueError:
        pass  # no signature to look at: try
    found.things.append(cls)


# --- names -------------------------------------------------------------------------------------------


def find_object(module: ModuleType, name: str, target: str) -> Any:
    """The object behind `module:name`; dots reach into it."""
    thing: Any = module
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            import difflib

            known = [key for key in dir(thing) if not key.startswith("_")]
            close = difflib.get_close_matches(part, known, n=1)
            raise SourceError(
                f"There is no '{part}' in {target.rpartition(':')[0]}",
                source=Location(_file_of(module)),
                hint=f"did you mean '{close[0]}'?" if close else None,
            ) from None
    return thing


def nothing_found(modules: Sequence[ModuleType], place: str) -> Finding:
    """Modules without tools: the likely reason, and the way out."""
    functions = [
        (module, name)
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not functions:
        file = _file_of(modules[0]) if len(modules) == 1 else None
        hint = "mark functions with @tool"
        return Finding("no-tools", "error", f"{place} has no tools", file=file, hint=hint)
    module, first = functions[0]
    file = _file_of(module)
    where = Path(file).name if file else module.__name__
    count = f"{len(functions)} functions" if len(functions) > 1 else "1 function"
    return Finding(
        "no-marked-tools",
        "error",
        f"{count} found, none marked",
        file=file,
        hint=f"add @tool, or name one, {where}:{first}",
    )


def _file_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)
