"""Imports modules by name, file or folder, and says what went wrong where.

A file is loaded under a name of its own, so that two files called `tools.py` do not collide. Knows the
import system; refuses to know tools.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from toolcrib.errors import SourceError
from toolcrib.finding import Source

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"}


def load_module(name: str) -> ModuleType:
    """Import a module by its dotted name, from the current folder too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise SourceError(
                f"There is no module '{name}'", hint="give a file, a folder, a module or module:object"
            ) from None
        raise _import_failed(name, error) from None
    except BaseException as error:
        raise _import_failed(name, error) from None


def load_file(path: Path) -> ModuleType:
    """Run a Python file as a module of its own. Files beside it can be imported as they would in a script."""
    path = path.resolve()
    package = _package_of(path)
    if package is not None:
        root, name = package
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        loaded = sys.modules.get(name)
        if loaded is None or getattr(loaded, "__file__", None) == str(path):
            return load_module(name)
    name = f"toolcrib_file_{hashlib.sha256(str(path).encode()).hexdigest()[:10]}_{_identifier(path.stem)}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} is not a Python file", source=Source(str(path)))
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__toolcrib_file__"] = str(path)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        raise _import_failed(str(path), error) from None
    return module


def python_files(folder: Path) -> Iterator[Path]:
    """Every Python file below a folder, in a stable order, without hidden and vendored folders."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if (
            not any(part.startswith(".") or part in _SKIPPED for part in parts[:-1])
            and path.name != "__main__.py"
        ):
            yield path


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


def _package_of(path: Path) -> tuple[Path, str] | None:
    """Where a file is part of a package: the folder to import from, and its dotted name."""
    if not (path.parent / "__init__.py").exists():
        return None
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return (folder, ".".join(parts)) if all(part.isidentifier() for part in parts) else None


def _identifier(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _import_failed(what: str, error: BaseException) -> SourceError:
    """The user's own error, with the user's own file and line."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SourceError):
        return error
    if isinstance(error, SyntaxError):
        return SourceError(
            f"{what} has a syntax error: {error.msg}", source=Source(error.filename, error.lineno)
        )
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename != __file__
    ]
    where = Source(frames[-1].filename, frames[-1].lineno) if frames else Source()
    hint = "install it, or mend the import" if isinstance(error, ImportError) else None
    return SourceError(f"{what} cannot be imported: {type(error).__name__}: {error}", source=where, hint=hint)
