"""Importing files, folders and modules, with errors that name file and line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.system.source_folders import forgotten_imports, write
from toolcrib.errors import InvalidSignatureError, SourceError
from toolcrib.sources.loading import (
    currently_loading,
    find_python_files,
    find_submodules,
    load_file,
    load_module,
)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


# --- files --------------------------------------------------------------------------------------------


def test_a_file_is_imported_under_its_own_name_and_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_alone.py": "import crib_helper\nvalue = crib_helper.value",
            "crib_helper.py": "value = object()",
        },
    )
    module = load_file(tmp_path / "crib_alone.py")
    assert module.__name__ == "crib_alone"
    assert load_file(tmp_path / "crib_alone.py") is module
    assert load_file(tmp_path / "crib_helper.py").value is module.value


def test_two_files_of_one_name_do_not_collide(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(tmp_path / str(number), {"crib_tools.py": f"number = {number}"})
    modules = [load_file(tmp_path / str(number) / "crib_tools.py") for number in (1, 2, 3)]
    assert [module.number for module in modules] == [1, 2, 3]
    assert len({module.__name__ for module in modules}) == 3
    assert load_file(tmp_path / "2" / "crib_tools.py") is modules[1]


def test_a_file_called_like_a_standard_module_does_not_hide_it(tmp_path: Path) -> None:
    write(tmp_path, {"calendar.py": "mine = True", "tabnanny.py": "mine = True"})
    assert load_file(tmp_path / "calendar.py").mine
    sys.modules.pop("tabnanny", None)
    assert load_file(tmp_path / "tabnanny.py").mine
    import tabnanny

    assert not hasattr(tabnanny, "mine")


def test_a_file_whose_name_is_not_an_identifier_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "my-tools.v2.py").write_text("value = 1")
    module = load_file(tmp_path / "my-tools.v2.py")
    assert module.value == 1
    assert module.__name__.isidentifier()


def test_a_name_that_belongs_to_a_module_made_by_hand_is_left_to_it(tmp_path: Path) -> None:
    sys.modules["crib_handmade"] = ModuleType("crib_handmade")
    write(tmp_path, {"crib_handmade.py": "value = 1"})
    assert load_file(tmp_path / "crib_handmade.py").value == 1
    assert not hasattr(sys.modules["crib_handmade"], "value")


def test_a_guarded_main_is_not_run(tmp_path: Path) -> None:
    write(tmp_path, {"crib_main.py": 'ran = False\nif __name__ == "__main__":\n    raise SystemExit("ran")'})
    assert load_file(tmp_path / "crib_main.py").ran is False


def test_anything_that_is_being_loaded_is_known_meanwhile(tmp_path: Path) -> None:
    text = "from toolcrib.sources.loading import currently_loading\nplace = currently_loading()"
    write(tmp_path, {"crib_place.py": text, "calendar.py": text})
    for name in ("crib_place.py", "calendar.py"):
        assert load_file(tmp_path / name).place == str(tmp_path / name)
    assert currently_loading() is None


# --- packages -----------------------------------------------------------------------------------------


def test_files_of_a_package_are_imported_as_its_modules(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_pkg/__init__.py": "top = 1",
            "crib_pkg/sub/__init__.py": "",
            "crib_pkg/sub/tools.py": "from ..shared import value\nfrom . import beside",
            "crib_pkg/sub/beside.py": "",
            "crib_pkg/shared.py": "from . import top as value",
        },
    )
    module = load_file(tmp_path / "crib_pkg" / "sub" / "tools.py")
    assert (module.__name__, module.value) == ("crib_pkg.sub.tools", 1)
    assert load_file(tmp_path / "crib_pkg" / "__init__.py") is sys.modules["crib_pkg"]


def test_two_packages_of_one_name_do_not_collide(tmp_path: Path) -> None:
    for number in (1, 2):
        write(
            tmp_path / str(number),
            {
                "crib_twin/__init__.py": f"number = {number}",
                "crib_twin/tools.py": "from . import number\nfrom .more import value",
                "crib_twin/more.py": f"value = {number} * 10",
            },
        )
    paths = [tmp_path / str(number) / "crib_twin" / "tools.py" for number in (1, 2)]
    modules = [load_file(path) for path in paths]
    assert [(module.number, module.value) for module in modules] == [(1, 10), (2, 20)]
    inits = [load_file(path.with_name("__init__.py")) for path in paths]
    assert [module.number for module in inits] == [1, 2]


def test_a_package_folder_with_an_odd_name_is_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "my-package"
    write(folder, {"__init__.py": "", "tools.py": "from .more import value", "more.py": "value = 5"})
    assert load_file(folder / "tools.py").value == 5


def test_submodules_are_named_without_importing_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_names/__init__.py": "",
            "crib_names/one.py": "raise SystemExit",
            "crib_names/sub/__init__.py": "",
            "crib_names/sub/two.py": "",
            "crib_names/__main__.py": "raise SystemExit",
        },
    )
    package = load_file(tmp_path / "crib_names" / "__init__.py")
    assert list(find_submodules(package)) == ["crib_names.one", "crib_names.sub", "crib_names.sub.two"]
    assert "crib_names.one" not in sys.modules
    assert list(find_submodules(os)) == []


# --- folders ------------------------------------------------------------------------------------------


def test_a_folder_is_read_in_a_stable_order_without_what_is_not_the_users_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "b.py": "",
            "a/inner.py": "",
            "a/__init__.py": "",
            "node_modules/x.py": "",
            "/pycache/.py": "",
            "env/lib/x.py": "",
            "build/kept.py": "",
            "proj/build/x.py": "",
            "proj/dist/x.py": "",
            "proj/setup.py": "",
        },
    )
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.py").write_text("")
    (tmp_path / ".#lock.py").write_text("")
    (tmp_path / "__main__.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    found = [str(path.relative_to(tmp_path)) for path in find_python_files(tmp_path)]
    assert found == ["a/__init__.py", "a/inner.py", "b.py", "build/kept.py", "proj/setup.py"]


def test_links_lead_nowhere_in_circles(tmp_path: Path) -> None:
    write(tmp_path, {"real/tools.py": ""})
    (tmp_path / "real" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nothing.py")
    found = [str(path.relative_to(tmp_path)) for path in find_python_files(tmp_path)]
    assert found == ["gone.py", "real/tools.py"]
    with pytest.raises(SourceError, match="FileNotFoundError"):
        load_file(tmp_path / "gone.py")


# --- modules ------------------------------------------------------------------------------------------


def test_a_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"crib_here.py": "value = 1"})
    monkeypatch.chdir(tmp_path)
    assert load_module("crib_here").value == 1
    write(tmp_path, {"crib_later.py": "value = 2"})
    assert load_module("crib_later").value == 2


@pytest.mark.parametrize("name", ["crib_nothing", "crib_nothing.below", "os.path.nothing", "json.nothing"])
def test_a_module_that_is_not_there_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(SourceError, match=f"(?m)^There is no module '{name}'$") as refusal:
        load_module(name)
    assert "module:object" in (refusal.value.hint or "")


def test_anything_that_a_module_lacks_is_not_taken_for_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        {"crib_lacks.py": "import crib_lacks_this", "crib_odd.py": "raise ModuleNotFoundError('odd')"},
    )
    monkeypatch.chdir(tmp_path)
    for name in ("crib_lacks", "crib_odd"):
        with pytest.raises(SourceError, match=f"^{name} cannot be imported: ModuleNotFoundError"):
            load_module(name)


@pytest.mark.parametrize("name", ["", ".relative", "a..b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SourceError):
        load_module(name)


# --- what goes wrong ----------------------------------------------------------------------------------


def refusal_of(path: Path, text: str | bytes) -> SourceError:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SourceError) as refusal:
        load_file(path)
    assert path.stem not in sys.modules
    return refusal.value


def test_an_error_is_told_with_the_users_own_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "crib_bad.py"
    error = refusal_of(path, "import json\n\njson.loads('{')\n")
    assert (error.source.file, error.source.line) == (str(path), 3)
    assert f"{path} cannot be imported: JSONDecodeError: " in str(error)
    assert error.hint is None


def test_an_error_in_a_module_that_the_file_imports_points_at_the_import(tmp_path: Path) -> None:
    write(tmp_path, {"crib_helper.py": "\n\n1 / 0"})
    error = refusal_of(tmp_path / "crib_uses.py", "\nimport crib_helper\n")
    assert (error.source.file, error.source.line) == (str(tmp_path / "crib_uses.py"), 2)


def test_a_missing_library_is_named_with_what_to_do(tmp_path: Path) -> None:
    error = refusal_of(tmp_path / "crib_needs.py", "import crib_not_installed")
    assert "ModuleNotFoundError: No module named 'crib_not_installed'" in str(error)
    assert error.hint == "install it, or correct the import"


def test_files_that_import_each_other_get_another_advice_than_to_install_something(tmp_path: Path) -> None:
    write(tmp_path, {"crib_circle.py": "from crib_round import x\ny = 1\n"})
    error = refusal_of(tmp_path / "crib_round.py", "from crib_circle import y\nx = 1\n")
    assert "circular import" in str(error)
    assert (error.hint or "").startswith("two files import each other: ")


def test_a_misspelt_name_in_an_import_gets_a_suggestion(tmp_path: Path) -> None:
    error = refusal_of(tmp_path / "crib_misspelt.py", "from json import lods\n")
    assert error.hint == "did you mean 'loads'?"
    error = refusal_of(tmp_path / "crib_wrong.py", "from json import zzzzz\n")
    assert error.hint == "correct the import, or install another version"


def test_a_relative_import_outside_a_package_gets_the_advice_to_make_one(tmp_path: Path) -> None:
    error = refusal_of(tmp_path / "crib_relative.py", "from . import other")
    assert error.hint == "put an empty __init__.py beside it, so that its folder is a package"


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "crib_syntax.py"
    error = refusal_of(path, "x = 1\ndef f(:\n")
    assert (error.source.file, error.source.line) == (str(path), 2)
    assert "has a syntax error" in str(error)


@pytest.mark.parametrize("content", [b"text = '\xff\xfe'\n", b"x = 1\x00\n"], ids=["not UTF-8", "null byte"])
def test_a_file_that_is_not_text_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "crib_binary.py"
    assert refusal_of(path, content).source.file == str(path)


def test_a_file_that_ends_the_program_does_not_end_it(tmp_path: Path) -> None:
    error = refusal_of(tmp_path / "crib_exit.py", "import sys\nsys.exit(3)")
    assert "SystemExit: 3" in str(error)
    assert '`if __name__ == "__main__":`' in (error.hint or "")


def test_a_private_load_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(sys.modules)
    (tmp_path / "not-a-name.py").write_text("1 / 0")
    with pytest.raises(SourceError, match="ZeroDivisionError"):
        load_file(tmp_path / "not-a-name.py")
    assert set(sys.modules) == before


def test_an_interrupt_is_not_swallowed(tmp_path: Path) -> None:
    write(tmp_path, {"crib_interrupt.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load_file(tmp_path / "crib_interrupt.py")


def test_a_tool_that_the_module_itself_registers_wrongly_is_the_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_wrong.py": "def wrong(*numbers: int) -> int: ...",
            "crib_register.py": """\
                from crib_wrong import wrong
                from toolcrib import MCPServer
                MCPServer().add(wrong)
            """,
            "crib_rename.py": """\
            from toolcrib import MCPServer
            server = MCPServer()
            server.registry.add(5)
        """,
        },
    )
    with pytest.raises(InvalidSignatureError, match=r"takes \*numbers") as refusal:
        load_file(tmp_path / "crib_register.py")
    assert refusal.value.source.file == str(tmp_path / "crib_wrong.py")
    with pytest.raises(ValueError, match="Not a tool: int") as other:
        load_file(tmp_path / "crib_rename.py")
    assert other.value.source.line == 3  # type: ignore[attr-defined]


def test_anything_that_is_not_a_python_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("x = 1")
    with pytest.raises(SourceError, match="is not a Python file"):
        load_file(tmp_path / "data.txt")


def test_an_error_without_any_line_points_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "crib_denied.py"
    path.mkdir()
    with pytest.raises(SourceError) as refusal:
        load_file(path)
    assert refusal.value.source.file == str(path)
