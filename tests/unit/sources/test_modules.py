"""Tools in modules: what is published, and what is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import Application
from toolcrib.errors import SourceError
from toolcrib.sources.loading import load_file
from toolcrib.sources.modules import ModuleContent, find_object, find_tools, report_no_tools
from toolcrib.sources.objects import is_tool_class


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


def load(folder: Path, text: str, name: str = "crib_module") -> ModuleType:
    write(folder, {f"{name}.py": text})
    return load_file(folder / f"{name}.py")


def found_in(folder: Path, text: str) -> ModuleContent:
    return find_tools(load(folder, text))


def described(found: ModuleContent) -> list[str]:
    return [getattr(thing, "__name__", type(thing).__name__) for thing in found.objects]


@pytest.mark.requirement("A-19")
def test_marked_functions_are_found_in_the_order_they_are_written(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from toolcrib import tool
        @tool
        def zebra(): ...
        def unmarked(): ...
        @tool(name="other")
        async def ant(): ...
        """,
    )
    assert described(found) == ["zebra", "ant"]


def test_an_import_publishes_nothing_unless_all_names_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "crib_lib.py": """
                from functools import partial
                from toolcrib import Application, Tool, tool
                @tool
                def search(): ...
                @tool
                def fetch(): ...
                class App(Application):
                    @tool
                    def ping(self): ...
                app = App()
                made = Tool.from_function(search)
                part = tool(name="part")(partial(search))
                """
        },
    )
    text = """
        import crib_lib
        try:
            from crib_lib import app, made, part, search
        except ImportError:
            search = None
        if True:
            from crib_lib import App, fetch as get
        def use():
            from crib_lib import search as used
            return used
        used = 1
    """
    assert described(found_in(tmp_path, text)) == []
    public = load(tmp_path, dedent(text) + '__all__ = ["search", "app"]', "crib_public")
    assert described(find_tools(public)) == ["App", "search"]


def test_anything_that_a_module_makes_of_an_import_is_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"crib_lib.py": "def search(): ...\ndef fetch(): ...\ndef load(): ..."})
    found = found_in(
        tmp_path,
        """
        from functools import lru_cache, partial
        from crib_lib import fetch, load, search
        from toolcrib import tool
        search = tool(search)
        cached = tool(lru_cache(fetch))
        part = tool(name="part")(partial(load))
        noted: object = tool(load)
        def fetch(): ...
        """,
    )
    assert [thing for thing in described(found) if thing != "partial"] == ["search", "fetch", "load"]
    assert len(found.objects) == 4


def test_a_module_without_source_publishes_what_says_it_is_of_it() -> None:
    module = ModuleType("crib_made")
    sys.modules["crib_made"] = module
    text = """
        from toolcrib import tool
        @tool
        def mine(): ...
        @tool
        def other(): ...
        other.__module__ = "elsewhere"
    """
    exec(compile(dedent(text), "<made>", "exec"), vars(module))
    assert described(find_tools(module)) == ["mine"]


def test_servers_count_wherever_they_come_from(tmp_path: Path) -> None:
    write(tmp_path, {"crib_app.py": "from toolcrib import MCPServer\nserver = MCPServer('app')"})
    found = found_in(tmp_path, "from crib_app import server\n@server.tool\ndef add(): ...")
    assert described(found) == ["MCPServer"]


def test_applications_and_tool_objects_are_found_as_objects_or_as_classes(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from toolcrib import Application, Tool, ToolRegistry
        class Ready(Application): ...
        ready = Ready()
        class Unmade(Application): ...
        class Duck:
            def list_tools(self): return []
        duck = Duck()
        class Echo:
            name, description, input_schema = "echo", "Echo.", {"type": "object", "properties": {}}
            async def execute(self, arguments): ...
        class EchoSharp:
            Name, Description, InputSchema = "echo2", "Echo.", {"type": "object", "properties": {}}
            async def ExecuteAsync(self, arguments): ...
        made = Tool.from_function(lambda: 1, name="made")
        registry = ToolRegistry()
        """,
    )
    assert described(found) == ["Ready", "Duck", "Tool", "ToolRegistry", "Unmade", "Echo", "EchoSharp"]


def test_classes_to_inherit_from_are_not_tools(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        import abc
        from typing import Protocol
        from toolcrib import Application
        class BaseTool:
            name, description, input_schema = "", "", {}
            async def execute(self, arguments): raise NotImplementedError
        class _Private(Application): ...
        class Abstract(Application, abc.ABC):
            @abc.abstractmethod
            def ping(self): ...
        class Shape(Protocol):
            name: str
            description: str
            input_schema: dict
            async def execute(self, arguments): ...
        class Plain: ...
        class Real(BaseTool):
            name, description = "real", "A real one."
        """,
    )
    assert described(found) == ["Real"]
    assert found.findings == []
    assert not is_tool_class(Application)
    assert not is_tool_class(Path)


def test_a_class_without_readable_signature_is_tried(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from toolcrib import Application
        class Meta(type):
            @property
            def __signature__(cls): raise ValueError("none")
        class Odd(Application, metaclass=Meta): ...
        """,
    )
    assert described(found) == ["Odd"]


def test_anything_that_bears_no_looking_at_is_passed_by(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from toolcrib import tool
        class Proxy:
            def __getattr__(self, name): raise RuntimeError("not ready")
        proxy = Proxy()
        class Client:
            async def list_tools(self): ...
        client = Client()
        @tool
        def fine(): ...
        """,
    )
    assert described(found) == ["fine"]


def test_handlers_that_are_not_a_dict_are_told_of(tmp_path: Path) -> None:
    found = found_in(tmp_path, "TOOL_HANDLERS = [print]")
    assert found.findings[0].message == "TOOL_HANDLERS must be a dict, got list"
    assert found.handlers == {}


# --- names --------------------------------------------------------------------------------------------


def test_an_object_is_found_by_its_name_and_what_is_inside_it(tmp_path: Path) -> None:
    module = load(tmp_path, "class App:\n    def ping(self): ...\napp = App()\ndef search(): ...")
    assert find_object(module, "search", "m:search") is module.search
    assert find_object(module, "app.ping", "m:app.ping") == module.app.ping
    with pytest.raises(SourceError, match=r"(?m)^There is no 'serch' in dir/m\.py$") as refusal:
        find_object(module, "serch", "dir/m.py:serch")
    assert refusal.value.hint == "did you mean 'search'?"
    assert refusal.value.source.file == module.__file__
    with pytest.raises(SourceError) as other:
        find_object(module, "zzzzz", "m:zzzzz")
    assert other.value.hint is None


def test_a_place_without_tools_says_why_and_what_to_do(tmp_path: Path) -> None:
    three = load(
        tmp_path, "def add(): ...\ndef sub(): ...\ndef mul(): ...\ndef _private(): ...\nfrom os import getcwd"
    )
    finding = report_no_tools([three], "crib_module.py")
    assert (finding.code, finding.level) == ("no-marked-tools", "error")
    assert finding.message == "3 functions found, none marked"
    assert finding.hint == "add @tool, or name one, crib_module.py:add"
    assert finding.file == str(tmp_path / "crib_module.py")
    empty = load(tmp_path, "x = 1", "crib_empty")
    assert report_no_tools([empty], "crib_empty.py").message == "crib_empty.py has no tools"
    assert report_no_tools([empty], "crib_empty.py").file == empty.__file__
    assert report_no_tools([], "folder").file is None
    one = ModuleType("crib_made")
    vars(one)["solo"] = type(report_no_tools)(
        compile("0", "<made>", "eval"), {"__name__": "crib_made"}, "solo"
    )
    finding = report_no_tools([empty, one], "folder")
    assert finding.message == "1 function found, none marked"
    assert finding.hint == "add @tool, or name one, crib_made:solo"
