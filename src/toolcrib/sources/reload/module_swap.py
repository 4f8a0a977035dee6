"""Import modules again while the old ones are in use, and keep either the new or the old ones.

A swap removes the imported modules of a source tree from `sys.modules`, so that importing them loads their
files again. It ends with the new modules kept or the old ones restored; neither are changed in place. Import
statements in old modules find other old modules, also during a swap.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import threading
import typing
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

from toolcrib.sources import loading

loading.import_machinery.add(__file__)
_swap_lock = threading.Lock()
"""One swap at a time: a process has one `sys.modules`."""


class ModuleSwap:
    """Removes modules from `sys.modules` until `keep` or `undo`, which may be called on another thread.

    `find` returns the imported modules to swap. `is_obsolete` returns whether a folder on the import path is
    no longer used, because a link was changed.
    """

    def __init__(self, find: Callable[[], dict[str, ModuleType]], is_obsolete: Callable[[str], bool]) -> None:
        self._find = find
        self._is_over = False
        _swap_lock.acquire()
        try:
            self._old = OldModules(find())
            for name, module in self._old.items():
                vars(module)[loading.OLD_MODULES] = self._old
                del sys.modules[name]
            self._roots = [
                root for root in sys.path if root in loading.added_import_paths and is_obsolete(root)
            ]
            for root in self._roots:
                sys.path.remove(root)
            importlib.invalidate_caches()
        except BaseException:
            _swap_lock.release()
            raise

    def keep(self) -> None:
        """Keep the new modules. The old ones live as long as something of them is in use."""
        if not self._is_over:
            self._is_over = True
            _swap_lock.release()
            # Each `list[X]` and `Optional[X]` in the caches of `typing` would keep the module of X.
            for clear in getattr(typing, "_cleanups", ()):
                clear()

    def undo(self) -> None:
        """Restore the old modules."""
        if self._is_over:
            return
        self._is_over = True
        for name in self._find():
            sys.modules.pop(name, None)
        for name, module in self._old.items():
            vars(module).pop(loading.OLD_MODULES, None)
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            package = sys.modules.get(parent)  # one that was not swapped has got the new module
            if package is not None and getattr(vars(package).get(child), "__name__", None) == name:
                setattr(package, child, module)
        sys.path += [root for root in self._roots if root not in sys.path]
        importlib.invalidate_caches()
        _swap_lock.release()


class OldModules(dict[str, ModuleType]):
    """Modules that were replaced together, by name."""

    def find(self, name: str, importer: dict[str, Any], fromlist: Sequence[str], level: int) -> Any:
        """Return the old module that an import statement in an old module refers to, or None."""
        full = name
        if level:
            package = importer.get("__package__") or getattr(importer.get("__spec__"), "parent", "")
            full = importlib.util.resolve_name("." * level + name, package)
        module = self.get(full)
        if module is None or not fromlist:
            return module and self.get(full.partition(".")[0])
        for part in fromlist:
            if part != "*" and not hasattr(module, part):
                child = self.get(f"{full}.{part}")
                if child is None:
                    return None
                setattr(module, part, child)
        return module


_original_import = builtins.__import__
_hooks = 0
_is_wrapped = False


def _import(
    name: str,
    globals: Any = None,  # noqa: A002 - the signature of `__import__`
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    old = globals.get(loading.OLD_MODULES) if type(globals) is dict else None
    if old is not None:
        module = old.find(name, globals, fromlist or (), level)
        if module is not None:
            return module
    return _original_import(name, globals, locals, fromlist, level)


class ImportHook:
    """Between `start` and `stop`, `on_import` is called with each source file that is `covered` before it is
    imported, and may raise; import statements in old modules find old modules.

    The files are imported without byte code, which may be older by less than a second.
    """

    def __init__(self, is_covered: Callable[[str], bool], on_import: Callable[[str], None]) -> None:
        self._is_covered = is_covered
        self._on_import = on_import
        self._is_started = False

    def start(self) -> None:
        global _original_import, _hooks, _is_wrapped
        if self._is_started:
            return
        self._is_started = True
        sys.meta_path.insert(0, self)
        loading.spec_listeners.append(self._prepare)
        _hooks += 1
        if not _is_wrapped:
            _is_wrapped = True
            _original_import, builtins.__import__ = builtins.__import__, _import

    def stop(self) -> None:
        global _hooks, _is_wrapped
        if not self._is_started:
            return
        self._is_started = False
        sys.meta_path.remove(self)
        loading.spec_listeners.remove(self._prepare)
        _hooks -= 1
        if not _hooks and builtins.__import__ is _import:  # otherwise another library has wrapped it
            builtins.__import__ = _original_import
            _is_wrapped = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the finders after this one, with its loader changed."""
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._prepare(spec)
                return spec
        return None

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""

    def _prepare(self, spec: ModuleSpec) -> None:
        file = spec.origin
        if file is None or not spec.has_location or not self._is_covered(file):
            return
        self._on_import(file)
        if isinstance(spec.loader, SourceFileLoader):  # not that of another import hook
            vars(spec.loader)["path_stats"] = _refuse_stats


def _refuse_stats(path: str) -> NoReturn:
    """Hide the time of a file, without which its byte code is neither used nor written."""
    raise OSError(f"{path} is read again")
