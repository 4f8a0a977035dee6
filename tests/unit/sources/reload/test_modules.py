"""Importing modules again, keeping them, and restoring the old ones."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from pathlib import Path

import pytest

from tests.support.reload_folder import source, workshop
from tests.support.source_folders import forgotten_imports, write
from toolcrib.sources.loading import load_file
from toolcrib.sources.reload.module_swap import ImportHook, ModuleSwap
from toolcrib.sources.reload.watched_files import SourceTree


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


@pytest.fixture
def reads() -> list[str]:
    return []


@pytest.fixture
def tree(tmp_path: Path, reads: list[str]) -> Iterator[SourceTree]:
    found = SourceTree([tmp_path])
    hook = ImportHook(found.covers, lambda file: reads.append(Path(file).name))
    hook.start()
    hook.start()
    try:
        yield found
    finally:
        hook.stop()
        hook.stop()


@pytest.fixture
def begin(tree: SourceTree) -> Iterator[Callable[[], ModuleSwap]]:
    turns: list[ModuleSwap] = []

    def make() -> ModuleSwap:
        turns.append(ModuleSwap(tree.modules, lambda root: False))
        return turns[-1]

    yield make
    for swap in turns:
        swap.undo()  # or else no other could begin


PACKAGE = {
    "crib_pack/__init__.py": "from . import part\nfrom .clash import clash\nname = 'old'",
    "crib_pack/clash.py": "def clash(): return 1",
    "crib_pack/part.py": "value = 'old'",
    "crib_pack/asker.py": """\
        def ask():
            import crib_pack.part
            import crib_pack.part as direct
            from . import clash, name
            from .part import value
            from crib_pack import asker
            exec("from .part import *", globals())
            return crib_pack.name, direct.value, name, value, asker, clash
    """,
}


def renew(folder: Path) -> None:
    for path in folder.rglob("*.py"):
        path.write_text(path.read_text().replace("'old'", "'new'"))


def test_what_is_imported_in_a_turn_is_new_and_the_old_is_untouched(
    tmp_path: Path, begin: Callable[[], ModuleSwap], reads: list[str]
) -> None:
    write(tmp_path, PACKAGE)
    old = load_file(tmp_path / "crib_pack/asker.py")
    renew(tmp_path)
    reads.clear()
    swap = begin()
    new = load_file(tmp_path / "crib_pack/asker.py")
    swap.keep()
    assert new is not old
    assert set(reads) == {"__init__.py", "asker.py", "clash.py", "part.py"}
    assert new.ask()[:4] == ("new", "new", "new", "new")
    assert old.ask()[:4] == ("old", "old", "old", "old")
    assert (new.ask()[4], old.ask()[4]) == (new, old)
    assert callable(old.ask()[5])  # the function, not the module of its name


def test_taking_a_turn_back_leaves_everything_as_it_was(
    tmp_path: Path, tree: SourceTree, begin: Callable[[], ModuleSwap]
) -> None:
    write(tmp_path, PACKAGE)
    old = load_file(tmp_path / "crib_pack/asker.py")
    names = {name: dict(vars(sys.modules[name])) for name in tree.modules()}
    modules, path = dict(sys.modules), list(sys.path)
    renew(tmp_path)
    write(tmp_path, {"crib_extra.py": ""})
    swap = begin()
    load_file(tmp_path / "crib_pack/asker.py")
    load_file(tmp_path / "crib_extra.py")
    swap.undo()
    swap.undo()
    assert {name: module for name, module in sys.modules.items() if name.startswith("crib_")} == {
        name: module for name, module in modules.items() if name.startswith("crib_")
    }
    assert {name: dict(vars(sys.modules[name])) for name in names} == names
    assert sorted(sys.path) == sorted(path)
    assert old.ask()[:4] == ("old", "old", "old", "old")


def test_taking_a_turn_back_restores_modules_in_packages_that_stay(
    tmp_path: Path, begin: Callable[[], ModuleSwap], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "site-packages"  # the namespace package has a part that is installed
    write(tmp_path, {"crib_space/part.py": "value = 'old'", "site-packages/crib_space/other.py": ""})
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.syspath_prepend(str(tmp_path))
    old = importlib.import_module("crib_space.part")
    renew(tmp_path)
    swap = begin()
    new = importlib.import_module("crib_space.part")
    assert (new.value, sys.modules["crib_space"].part) == ("new", new)
    swap.undo()
    assert sys.modules["crib_space"].part is old


def test_old_code_gets_what_it_never_imported_from_the_files_of_today(
    tmp_path: Path, begin: Callable[[], ModuleSwap]
) -> None:
    late = "def late():\n    from crib_pack import newcomer\n    return newcomer.value"
    write(tmp_path, {"crib_pack/__init__.py": "", "crib_pack/tools.py": late})
    old = load_file(tmp_path / "crib_pack/tools.py")
    write(tmp_path, {"crib_pack/newcomer.py": "value = 'today'"})
    swap = begin()
    assert old.late() == "today"
    swap.keep()
    assert old.late() == "today"


def test_compiled_files_are_neither_trusted_nor_written(tmp_path: Path, tree: SourceTree) -> None:
    write(tmp_path, {"crib_alone.py": "value = 1"})
    load_file(tmp_path / "crib_alone.py")
    assert not (tmp_path / "__pycache__").exists()


def test_a_file_that_is_refused_is_not_run(tmp_path: Path) -> None:
    def refuse(file: str) -> None:
        raise PermissionError(file)

    write(tmp_path, {"crib_alone.py": "raise SystemError"})
    hook = ImportHook(SourceTree([tmp_path]).covers, refuse)
    hook.start()
    sys.path.append(str(tmp_path))
    try:
        with pytest.raises(PermissionError, match=r"crib_alone\.py"):
            importlib.import_module("crib_alone")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("crib_nowhere")
    finally:
        hook.stop()


def test_two_hooks_do_not_disturb_each_other(tmp_path: Path) -> None:
    before = (builtins.__import__, list(sys.meta_path))
    noted: list[str] = []
    write(tmp_path, {"one/crib_one.py": "import crib_two", "two/crib_two.py": ""})
    hooks = [ImportHook(SourceTree([tmp_path / name]).covers, noted.append) for name in ("one", "two")]
    for hook in hooks:
        hook.start()
    sys.path.append(str(tmp_path / "two"))
    load_file(tmp_path / "one/crib_one.py")
    hooks[0].stop()
    assert builtins.__import__ is not before[0]
    hooks[1].stop()
    assert {Path(file).name for file in noted} == {"crib_one.py", "crib_two.py"}
    assert (builtins.__import__, list(sys.meta_path)) == before


def test_who_wraps_importing_afterwards_keeps_what_is_underneath(tmp_path: Path) -> None:
    before = builtins.__import__
    hook = ImportHook(lambda file: False, lambda file: None)
    hook.start()
    inner = builtins.__import__
    outer = builtins.__import__ = lambda *args, **options: inner(*args, **options)
    try:
        hook.stop()
        assert builtins.__import__ is outer
        hook.start()  # not once more around itself
        import colorsys  # noqa: F401
    finally:
        builtins.__import__ = inner
        hook.stop()
    assert builtins.__import__ is before


async def test_a_module_that_a_hook_loads_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ToolLoader(SourceFileLoader):
        """As libraries make them that change what is imported."""

    compiled = (ExtensionFileLoader, EXTENSION_SUFFIXES)
    hook = FileFinder.path_hook(compiled, (ToolLoader, [".py"]))
    monkeypatch.setattr(sys, "path_hooks", [hook, *sys.path_hooks])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    (tmp_path / "crib_tools.py").write_text(
        source("").replace("return ''", "from crib_late import word\n    return word")
    )
    (tmp_path / "crib_late.py").write_text("word = 'one'")
    with workshop(tmp_path) as shop:
        await shop.reloader.check_now()
        assert await shop.say() == "one"
        assert type(sys.modules["crib_late"].__loader__) is ToolLoader
        shop.write(crib_late="word = 'two'")
        assert await shop.reloader.check_now()
        assert await shop.say() == "two"
