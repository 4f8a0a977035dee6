"""Imports modules by name, file or folder, and says what went wrong where.

A file is imported under the name Python would give it, so that files beside it can import it and each other.
Where that name means something else already, it is loaded under a name of its own: two files called
`tools.py` do not collide. The folder of a file is put at the end of the import path: a user's `calendar.py`
must not become everybody's. Knows the import system; refuses to know tools.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from toolcrib.errors import ConfigurationError, DefinitionError, SourceError
from toolcrib.finding import Source

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
        raise SourceError(f"{path} is not a Python file", source=Source(str(path)))
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
        where = Source(error.filename or file, error.lineno)
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


def _find_line(error: BaseException, file: str | None) -> Source:
    """The last line of the file itself that the error came through, else the last line there is."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename not in machinery
    ]
    chosen = [frame for frame in frames if frame.filename == file] or frames
    return Source(chosen[-1].filename, chosen[-1].lineno) if chosen else Source(file)


def _advise(error: BaseException) -> str | None:
    if isinstance(error, SystemExit):
        return 'put what ends the program below `if __name__ == "__main__":`'
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "put an empty __init__.py beside it, so that its folder is a package"
    if isinstance(error, ImportError):
        return "install it, or mend the import"
    return error.hint if isinstance(error, ConfigurationError) else None
