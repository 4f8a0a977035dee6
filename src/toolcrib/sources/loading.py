"""Import modules by name or file, and explain failures with file and line.

A file is imported under its usual module name, so that the files beside it can import it and each other, as
parts of their package and as in a script. If another module has that name, the file is loaded under a private
name, so that two files called `tools.py` do not collide. The folder of a file is appended to the import path,
so that a user's `calendar.py` does not hide that of the standard library.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

from toolcrib.errors import (
    ConfigurationError,
    DefinitionError,
    Location,
    SourceError,
    ToolcribError,
    suggest,
    suggest_file,
)
from toolcrib.sources.source_text import show_syntax_error

_INSTALLED = frozenset({"dist-packages", "site-packages"})
_STANDARD_LIBRARY = os.path.dirname(os.__file__)  # sysconfig costs start-up time
_SKIPPED_FOLDERS = _INSTALLED | {"__pycache__", "node_modules"}
_TESTS = re.compile(r"conftest\.py|test_.*\.py|.*_test\.py")
_TESTING = re.compile(rb"^[ \t]*assert\b|\b(?:pytest|unittest)\b", re.MULTILINE)
_BUILD_FOLDERS = {"build", "dist"}  # they hold copies of the sources
_PROJECT_FILES = ("pyproject.toml", "setup.py")

_DEFINITIONS = {
    "server": "define it above, server = MCPServer('name'), or mark the function with @tool",
    "tool": "add: from toolcrib import tool",
}
import_machinery: set[str] = {__file__, str(importlib.__file__)}
"""Files in the traceback of every import, which are never the location of an error."""

_loading: ContextVar[str | None] = ContextVar("toolcrib_loading", default=None)
_may_import: ContextVar[bool] = ContextVar("toolcrib_may_import", default=True)


def currently_loading() -> str | None:
    """Return the file or module that is being imported in search of tools."""
    return _loading.get()


@contextmanager
def imports_forbidden() -> Iterator[None]:
    """Make `load_file` and `load_module` fail: reading source code must not run it."""
    token = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(token)


def _check_may_import(what: str) -> None:
    if not _may_import.get():
        raise SourceError(f"{what} would have to be imported", hint="name it as a separate target")


# --- finding files -----------------------------------------------------------------------------------


def find_python_files(
    folder: Path, on_error: Callable[[OSError], None] | None = None, *, with_main: bool = False
) -> list[Path]:
    """Return every Python file below a folder, sorted, without tests, and hidden, vendored and built folders.

    Links to folders are not followed, so there are no cycles. `on_error` gets folders that cannot be read.
    `with_main` adds each `__main__.py`, which must not be imported: it runs a program.
    """
    found = [here / name for here, names in _walk(folder, on_error) for name in names if _is_source(name)]
    return sorted(path for path in found if (with_main or path.name != "__main__.py") and not _is_test(path))


def _is_test(path: Path) -> bool:
    """Return whether a file holds tests: tools are in files such as `test_migration.py` too."""
    try:
        return _TESTS.fullmatch(path.name) is not None and _TESTING.search(path.read_bytes()) is not None
    except OSError:
        return False  # reading it reports why


def find_source_folders(folder: Path) -> list[Path]:
    """Return the folder and every folder below it where `find_python_files` looks."""
    return [here for here, _ in _walk(folder)]


def names_in(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def resolve(path: Path) -> Path:
    """Return a path as importing names it; one whose links go in circles stays as it is."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def find_import_root(path: Path) -> tuple[Path, list[str]]:
    """Return the folder that a file is imported from, and the parts of its dotted name."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, parts


def find_submodules(package: ModuleType) -> Iterator[str]:
    """Yield the dotted names of all modules below a package, without importing them."""
    for location in getattr(package, "__path__", ()):
        root = Path(location)
        for path in find_python_files(root):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if parts:
                yield ".".join((package.__name__, *parts))


def find_module_file(name: str, search: Sequence[str] | None = None) -> Path | None:
    """Return the file or folder of a module, on the import path or in the current folder, unimported."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    if parts[0] == "toolcrib":  # it is imported, and some of its modules have an older path
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            return None
        return Path(found.origin) if found is not None and found.origin is not None else None
    folders = [Path(entry or ".") for entry in dict.fromkeys([os.getcwd(), *sys.path, *(search or ())])]
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        whole = _first(folders, lambda folder, part=part: folder / part / "__init__.py")  # type: ignore[misc]
        if whole is not None:
            if is_last:
                return whole
            folders = [whole.parent]
            continue
        file = _first(folders, lambda folder, part=part: folder / f"{part}.py")  # type: ignore[misc]
        if file is not None:
            return file if is_last else None
        # Unlike Path.is_dir, it takes any text.
        folders = [folder / part for folder in folders if os.path.isdir(folder / part)]
    return folders[0] if folders else None


def _first(folders: Sequence[Path], make: Callable[[Path], Path]) -> Path | None:
    for folder in folders:
        path = make(folder)
        try:
            if path.is_file():
                return path
        except OSError:
            continue  # an entry of the import path that is not a folder
    return None


def is_skipped_folder(name: str) -> bool:
    """Return whether a folder of this name is hidden or holds third-party code."""
    return name.startswith(".") or name in _SKIPPED_FOLDERS


def is_installed(file: str) -> bool:
    """Return whether a file is part of an installed package or of Python."""
    path = Path(file)
    return not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(_STANDARD_LIBRARY)


def _walk(
    folder: Path, on_error: Callable[[OSError], None] | None = None
) -> Iterator[tuple[Path, list[str]]]:
    for current, folders, files in os.walk(folder, onerror=on_error):
        here = Path(current)
        is_project = any(name in files for name in _PROJECT_FILES)
        folders[:] = [
            name
            for name in folders
            if not is_skipped_folder(name)
            and name != "tests"
            and not (is_project and name in _BUILD_FOLDERS)
            and not os.path.exists(here / name / "pyvenv.cfg")
        ]
        yield here, files


def _is_source(name: str) -> bool:
    return name.endswith(".py") and not name.startswith(".")


# --- importing ---------------------------------------------------------------------------------------


def load_module(name: str, what: str = "module") -> ModuleType:
    """Import a module by its dotted name, from the current folder too. `what` is the word for it in the error
    if it does not exist."""
    if name.partition(".")[0] != "toolcrib":  # which is imported already
        _check_may_import(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    return _import(name, name, what=what)


def add_import_path(folder: Path, *, first: bool = False) -> None:
    """Add a folder to the import path: at its end, or where Python puts the folder of a script."""
    if str(folder) not in sys.path:
        sys.path.insert(0 if first else len(sys.path), str(folder))


def load_file(path: Path) -> ModuleType:
    """Import a Python file. The files beside it can be imported as in a script."""
    _check_may_import(str(path))
    path = path.resolve()
    root, parts = find_import_root(path)
    add_import_path(root)
    add_import_path(path.parent)  # in a package too: a script in it imports the files beside it
    if _resolves_to(parts[0], root, path):
        return _import(".".join(parts), str(path), path)
    if path.parent == root:
        return _load_as(_private_name(path), path)
    package = root / parts[0]
    top = _private_name(package)
    _load_as(top, package / "__init__.py", package)
    return _import(".".join((top, *parts[1:])), str(path), path)


def _resolves_to(name: str, root: Path, path: Path) -> bool:
    """Return whether `import name` finds the module in `root`."""
    if not name.isidentifier():
        return False
    try:
        spec = importlib.util.find_spec(name)
        if spec is None:  # the file may be new
            importlib.invalidate_caches()
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False  # a module that was created without a spec
    if spec is None:
        return False
    if spec.submodule_search_locations is None:
        return spec.origin is not None and Path(spec.origin).resolve() == path
    return any(Path(location).resolve() == root / name for location in spec.submodule_search_locations)


def _private_name(path: Path) -> str:
    digest = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:10]
    return f"toolcrib_{digest}_{''.join(letter if letter.isalnum() else '_' for letter in path.name)}"


def _import(name: str, label: str, path: Path | None = None, what: str = "module") -> ModuleType:
    token = _loading.set(label)
    try:
        return importlib.import_module(name)
    except BaseException as error:
        raise _explain(name, label, path, error, what) from None
    finally:
        _loading.reset(token)


def _load_as(name: str, path: Path, folder: Path | None = None) -> ModuleType:
    """Load a file as a module of this name; with `folder`, as the package in that folder."""
    if name in sys.modules:
        return sys.modules[name]
    locations = None if folder is None else [str(folder)]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} is not a Python file", source=Location(str(path)))
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


# --- explaining failures -----------------------------------------------------------------------------


def _explain(
    name: str, label: str, path: Path | None, error: BaseException, what: str = "module"
) -> DefinitionError:
    """Return the error of an import, with the line of the user's own file."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    file = None if path is None else str(path)
    if isinstance(error, DefinitionError):  # the module registers a tool that was refused
        if error.source.file is None:
            error.source = find_location(error, file)
        return error
    if isinstance(error, ModuleNotFoundError) and path is None and _is_missing(name, error.name):
        return SourceError(f"There is no {what} '{name}'", hint=suggest_file(name))
    return explain(label, error, path, "imported")


def explain(label: str, error: BaseException, path: Path | None, action: str) -> SourceError:
    """Return the error of code that could not be imported or run, with the line of the user's own file."""
    file = None if path is None else str(path)
    if isinstance(error, SyntaxError):
        location = Location(error.filename or file, error.lineno)
        broken = SourceError(f"{location.file or label} has a syntax error: {error.msg}", source=location)
        broken.excerpt = show_syntax_error(error)
        return broken
    text = f"{label} cannot be {action}: {type(error).__name__}: {error}"
    location, origin = find_location(error, file), find_location(error, None)
    if path is not None and origin.file is not None and _is_neighbour(Path(origin.file), path):
        text += f" (at {origin})"
    others = error.others if isinstance(error, ConfigurationError) else ()
    found = SourceError(text, source=location, hint=_find_hint(error))
    return found.add(SourceError(str(each), source=location, hint=each.hint) for each in others)


def _is_missing(name: str, missing: str | None) -> bool:
    return missing is not None and (name == missing or name.startswith(f"{missing}."))


def _is_neighbour(other: Path, path: Path) -> bool:
    """Return whether `other` is another file of the same project."""
    root = find_import_root(path)[0]
    return (
        other != path
        and other.is_relative_to(root)
        and not any(map(is_skipped_folder, other.relative_to(root).parts))
    )


def find_location(error: BaseException, file: str | None) -> Location:
    """Return the last line of `file` in the traceback, or else of a file of the user, or else of any."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename not in import_machinery
    ]
    own = [frame for frame in frames if not is_installed(frame.filename)]
    chosen = [frame for frame in frames if frame.filename == file] or own or frames
    return Location(chosen[-1].filename, chosen[-1].lineno) if chosen else Location(file)


def _find_hint(error: BaseException) -> str | None:
    if isinstance(error, SystemExit):
        return 'put code that ends the program below `if __name__ == "__main__":`'
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "put an empty __init__.py beside it, so that its folder is a package"
    if "partially initialized module" in str(error):
        return "two files import each other: move what both need to a third one, or import inside a function"
    if isinstance(error, ModuleNotFoundError):
        return "install it, or correct the import"
    if isinstance(error, ImportError):
        return _suggest_import(error)
    if isinstance(error, NameError):
        return _DEFINITIONS.get(error.name or "", "define or import it above this line")
    return error.hint if isinstance(error, ToolcribError) else None


def _suggest_import(error: ImportError) -> str:
    """Return the hint for a name that a module does not have."""
    found = re.match(r"cannot import name '(\w+)'", str(error))
    module = sys.modules.get(error.name or "")
    known = [name for name in dir(module) if not name.startswith("_")] if module is not None else []
    return suggest(found[1] if found else "", known, "correct the import, or install another version")
