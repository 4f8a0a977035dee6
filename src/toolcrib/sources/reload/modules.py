"""Loads modules afresh beside those that are in use, and takes either set back.

A turn puts the loaded modules of a territory aside, so that importing them loads their files again. It ends
with the new modules kept or the old ones put back; neither are ever changed in place. Code of modules that
were put aside goes on importing its own companions, also while a turn is under way. Knows the import system;
refuses to know tools and when to load.
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

_PAST = "__toolcrib_past__"
loading.import_machinery.add(__file__)
_turns = threading.Lock()
"""One turn at a time in a process: there is one table of modules."""


# --- turns -------------------------------------------------------------------------------------------


class Turn:
    """From putting modules aside until it is known which set stays. May end on another thread.

    `find` gives the loaded modules that belong here. `leaves` tells of a folder of the import path whether
    nothing is loaded from there any more: a link may lead elsewhere by now.
    """

    def __init__(self, find: Callable[[], dict[str, ModuleType]], leaves: Callable[[str], bool]) -> None:
        self._find = find
        self._is_over = False
        _turns.acquire()
        try:
            self._aside = Past(find())
            self._outer = [*_outer_names(self._aside)]
            for name, module in self._aside.items():
                vars(module)[_PAST] = self._aside
                del sys.modules[name]
            self._roots = [root for root in sys.path if root in loading.added_import_paths and leaves(root)]
            for root in self._roots:
                sys.path.remove(root)
            importlib.invalidate_caches()
        except BaseException:
            _turns.release()
            raise

    def keep(self) -> None:
        """The new modules stay. The old ones live as long as something of them is in use."""
        if not self._is_over:
            self._is_over = True
            _turns.release()
            forget_types()

    def undo(self) -> None:
        """The old modules are back, as if nothing had been."""
        if self._is_over:
            return
        self._is_over = True
        for name in self._find():
            sys.modules.pop(name, None)
        for name, module in self._aside.items():
            vars(module).pop(_PAST, None)
            sys.modules[name] = module
        for package, child, thing in self._outer:
            setattr(package, child, thing)
        sys.path += [root for root in self._roots if root not in sys.path]
        importlib.invalidate_caches()
        _turns.release()


def forget_types() -> None:
    """Empty the caches of `typing`: each `list[X]` and `Optional[X]` in them would keep the module of X."""
    for clear in getattr(typing, "_cleanups", ()):
        clear()


def _outer_names(aside: dict[str, ModuleType]) -> Iterator[tuple[ModuleType, str, Any]]:
    """The names of modules in packages that stay where they are: importing afresh binds them anew."""
    for name in aside:
        parent, _, child = name.rpartition(".")
        package = sys.modules.get(parent)
        if package is not None and parent not in aside and hasattr(package, child):
            yield package, child, getattr(package, child)


class Past(dict[str, ModuleType]):
    """Modules that belong together and were put aside, by name."""

    def find(self, name: str, importer: dict[str, Any], fromlist: Sequence[str], level: int) -> Any:
        """What an import statement in one of these modules means; None where it means something else."""
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


_ordinary = builtins.__import__
_readers = 0
_is_hooked = False


def _import(
    name: str,
    globals: Any = None,  # noqa: A002 - the language calls it so
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    past = globals.get(_PAST) if type(globals) is dict else None
    if past is not None:
        module = past.find(name, globals, fromlist or (), level)
        if module is not None:
            return module
    return _ordinary(name, globals, locals, fromlist, level)


# --- reading -----------------------------------------------------------------------------------------


class Reader:
    """Has the source files of a territory read as they are now: compiled files tell seconds, not saves.

    `visit` sees each file before it is loaded and may refuse it; `note` gets what was read. Between `start`
    and `stop`, modules that were put aside import their own companions.
    """

    def __init__(
        self,
        covers: Callable[[str], bool],
        visit: Callable[[str], None],
        note: Callable[[str, bytes], None],
    ) -> None:
        self._covers = covers
        self._visit = visit
        self._note = note
        self._is_started = False

    def start(self) -> None:
        global _ordinary, _readers, _is_hooked
        if self._is_started:
            return
        self._is_started = True
        sys.meta_path.insert(0, self)
        loading.spec_listeners.append(self._adopt)
        _readers += 1
        if not _is_hooked:
            _is_hooked = True
            _ordinary, builtins.__import__ = builtins.__import__, _import

    def stop(self) -> None:
        global _readers, _is_hooked
        if not self._is_started:
            return
        self._is_started = False
        sys.meta_path.remove(self)
        loading.spec_listeners.remove(self._adopt)
        _readers -= 1
        if not _readers and builtins.__import__ is _import:  # or else somebody has wrapped it, and needs it
            builtins.__import__ = _ordinary
            _is_hooked = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders after this one find; the import system asks."""
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._adopt(spec)
                return spec
        return None

    def invalidate_caches(self) -> None:
        """There are none here; the import system asks."""

    def _adopt(self, spec: ModuleSpec) -> None:
        file = spec.origin
        if file is None or not spec.has_location or not self._covers(file):
            return
        self._visit(file)
        if isinstance(spec.loader, SourceFileLoader):  # or what a library with an import hook makes of it
            _read_source_only(spec.loader, self._note)


def _read_source_only(loader: SourceFileLoader, note: Callable[[str, bytes], None]) -> None:
    """Have a loader neither read nor write compiled files, and tell what it reads. Without the times of a
    file, no compiled one fits it."""
    read = loader.get_data

    def get_data(path: str) -> bytes:
        content = read(path)
        note(path, content)
        return content

    vars(loader).update(get_data=get_data, path_stats=_refuse_stats)


def _refuse_stats(path: str) -> NoReturn:
    raise OSError(f"{path} is read anew")
