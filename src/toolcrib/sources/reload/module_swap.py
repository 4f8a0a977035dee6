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
from collections.abc import Callable, Iterator, Sequence
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
            self._outer = [*_outer_names(self._old)]
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
            clear_typing_caches()

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
        for package, child, thing in self._outer:
            setattr(package, child, thing)
        sys.path += [root for root in self._roots if root not in sys.path]
        importlib.invalidate_caches()
        _swap_lock.release()


def clear_typing_caches() -> None:
    """Clear the caches of `typing`: each `list[X]` and `Optional[X]` in them would keep the module of X."""
    for clear in getattr(typing, "_cleanups", ()):
        clear()


def _outer_names(modules: dict[str, ModuleType]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield the attributes of other packages that are swapped modules: an import sets them again."""
    for name in modules:
        parent, _, child = name.rpartition(".")
        package = sys.modules.get(parent)
        if package is not None and parent not in modules and hasattr(package, child):
            yield package, child, getattr(package, child)


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
_importers = 0
_is_hooked = False


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


class SourceImporter:
    """Imports the source files of a tree without byte code, which may be older by less than a second.

    `check` is called with each file before it is imported, and may raise; `note` gets the content that was
    read. Between `start` and `stop`, import statements in old modules find old modules.
    """

    def __init__(
        self,
        covers: Callable[[str], bool],
        check: Callable[[str], None],
        note: Callable[[str, bytes], None],
    ) -> None:
        self._covers = covers
        self._check = check
        self._note = note
        self._is_started = False

    def start(self) -> None:
        global _original_import, _importers, _is_hooked
        if self._is_started:
            return
        self._is_started = True
        sys.meta_path.insert(0, self)
        loading.spec_listeners.append(self._prepare)
        _importers += 1
        if not _is_hooked:
            _is_hooked = True
            _original_import, builtins.__import__ = builtins.__import__, _import

    def stop(self) -> None:
        global _importers, _is_hooked
        if not self._is_started:
            return
        self._is_started = False
        sys.meta_path.remove(self)
        loading.spec_listeners.remove(self._prepare)
        _importers -= 1
        if not _importers and builtins.__import__ is _import:  # otherwise another library has wrapped it
            builtins.__import__ = _original_import
            _is_hooked = False

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
        if file is None or not spec.has_location or not self._covers(file):
            return
        self._check(file)
        if isinstance(spec.loader, SourceFileLoader):  # not that of an import hook
            _ignore_byte_code(spec.loader, self._note)


def _ignore_byte_code(loader: SourceFileLoader, note: Callable[[str, bytes], None]) -> None:
    """Make a loader ignore byte code, by hiding the times of the file, and pass what it reads to `note`."""
    read = loader.get_data

    def get_data(path: str) -> bytes:
        content = read(path)
        note(path, content)
        return content

    vars(loader).update(get_data=get_data, path_stats=_refuse_stats)


def _refuse_stats(path: str) -> NoReturn:
    raise OSError(f"{path} is read again")
