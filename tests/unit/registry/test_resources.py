"""Resources: what may be one, what becomes of results, and which one a URI belongs to."""

from __future__ import annotations

import base64
import enum
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from toolcrib import File, Image, Link, MCPServer, Result, ToolError
from toolcrib.errors import BatchError, CallError, DefinitionError, InvalidToolError, ToolNotFoundError

Contents = list[dict[str, Any]]


class Order(BaseModel):
    id: int


@dataclass
class Size:
    width: int


class Color(enum.Enum):
    RED = "red"


async def read_result(value: Any, **options: Any) -> Contents:
    server = MCPServer("shop")
    server.resource("shop://it", **options)(lambda: value)
    return await server.read("shop://it")


# --- what a function returns ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "mime_type", "text"),
    [
        ("tea", "text/plain", "tea"),
        ("", "text/plain", ""),
        (None, "text/plain", ""),
        ({"tea": 2}, "application/json", '{"tea":2}'),
        ([1, 2], "application/json", "[1,2]"),
        (["a", "b"], "application/json", '["a","b"]'),
        (("a", 1), "application/json", '["a",1]'),
        ([], "application/json", "[]"),
        (5, "application/json", "5"),
        (True, "application/json", "true"),
        (Order(id=7), "application/json", '{"id":7}'),
        (Size(3), "application/json", '{"width":3}'),
        (Color.RED, "text/plain", "red"),
        (File("tea"), "text/plain", "tea"),
        (File(b"a,b", mime_type="text/csv"), "text/csv", "a,b"),
        (Result.of("two left", {"left": 2}), "text/plain", "two left"),
    ],
)
async def test_a_result_becomes_text_with_its_media_type(value: Any, mime_type: str, text: str) -> None:
    assert await read_result(value) == [{"uri": "shop://it", "mimeType": mime_type, "text": text}]


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
async def test_bytes_become_a_blob(value: Any) -> None:
    blob = base64.b64encode(b"\x00\xff").decode()
    expected = {"uri": "shop://it", "mimeType": "application/octet-stream", "blob": blob}
    assert await read_result(value) == [expected]


@pytest.mark.parametrize("value", [Image(b"png"), Result([Image(b"png").to_block()])])
async def test_an_image_becomes_a_blob(value: Any) -> None:
    expected = {"uri": "shop://it", "mimeType": "image/png", "blob": base64.b64encode(b"png").decode()}
    assert await read_result(value) == [expected]


async def test_the_media_type_of_the_resource_decides_whether_bytes_are_text() -> None:
    assert (await read_result(b"a,b", mime_type="text/csv"))[0]["text"] == "a,b"
    assert (await read_result(b"a,b", mime_type="image/png"))[0]["blob"] == base64.b64encode(b"a,b").decode()
    assert (await read_result({"a": 1}, mime_type="application/geo+json"))[0]["mimeType"] == (
        "application/geo+json"
    )


async def test_a_list_with_a_file_or_bytes_in_it_is_several_contents() -> None:
    first, second = await read_result(["tea", b"\x00"])
    assert (first["text"], second["blob"]) == ("tea", "AA==")
    named, unnamed = await read_result([File("a", uri="shop://it/a"), File("b")])
    assert (named["uri"], unnamed["uri"]) == ("shop://it/a", "shop://it")


async def test_contents_in_the_form_of_the_protocol_pass_as_they_are() -> None:
    wire = [{"uri": "shop://it/1", "text": "one", "_meta": {"a": 1}}, {"uri": "shop://it/2", "blob": "AA=="}]
    assert await read_result({"contents": wire}) == wire
    assert await read_result(wire) == wire


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (Link("https://x.example", "x"), "a Link is not content"),
        (Result([Link("https://x.example", "x").to_block()]), "a Link is not content"),
        (float("nan"), "nan at 'result' is not a JSON number"),
        ({"a": [float("inf")]}, r"inf at 'a\[0\]' is not a JSON number"),
        (object(), "a value of type object has no JSON form"),
        ("\ud800", "not valid Unicode"),
        ("x" * (16 * 2**20 + 1), "larger than 16384 KiB"),
        ([b"x" * (9 * 2**20), b"y" * (9 * 2**20)], "larger than 16384 KiB"),
        ({"contents": [{"text": "no uri"}]}, "its contents are not a list of objects"),
        (
            {"contents": [{"uri": "a:b", "text": "x", "blob": "AA=="}]},
            "its contents are not a list of objects",
        ),
    ],
)
async def test_a_result_that_cannot_be_sent_is_an_error_that_says_why(value: Any, problem: str) -> None:
    with pytest.raises(CallError, match=problem):
        await read_result(value)


async def test_an_error_result_is_an_error() -> None:
    with pytest.raises(CallError, match="sold out"):
        await read_result(Result([{"type": "text", "text": "sold out"}], is_error=True))


# --- what may be a resource ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("", "must have 1 to 8192 characters"),
        ("x" * 9000, "must have 1 to 8192 characters"),
        ("orders", "Not a URI: 'orders'"),
        ("1a://x", "Not a URI"),
        ("shop://a b", "Not a URI"),
        ("shop://é", "Not a URI"),
        ("shop://{", "unbalanced braces"),
        (5, "must be a string, got int"),
    ],
)
def test_a_resource_needs_a_uri(uri: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        MCPServer("shop").resource(uri)(lambda: "x")


def test_variables_and_parameters_must_agree() -> None:
    server = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="its function has no parameter 'id'"):
        server.resource("shop://{id}")(lambda: "x")
    with pytest.raises(InvalidToolError, match="its parameter 'b' is not in the URI"):
        server.resource("shop://{a}")(lambda a, b: "x")
    with pytest.raises(InvalidToolError, match="'a' may be missing in a URI"):
        server.resource("shop://x{?a}")(lambda a: "x")
    with pytest.raises(InvalidToolError, match="unscreened names 'b', which is no variable"):
        server.resource("shop://{a}", unscreened=["b"])(lambda a: "x")
    with pytest.raises(InvalidToolError, match="its parameter 'a' is not in the URI"):
        server.resource("shop://x")(lambda a: "x")
    assert len(server.resources) == 0


def test_anything_that_cannot_be_a_resource_is_refused() -> None:
    server = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="A Link cannot be a resource"):
        server.add_resource("shop://x", Link("a:b", "b"))
    with pytest.raises(InvalidToolError, match="Fixed content needs a URI without variables"):
        server.add_resource("shop://{x}", "text")
    with pytest.raises(InvalidToolError, match="There is no file"):
        server.add_resource("shop://x", Path("/nowhere/at/all"))
    with pytest.raises(InvalidToolError, match="cannot run in a process"):
        server.resource("shop://x", run="process")(lambda: "x")
    with pytest.raises(InvalidToolError, match="A resource needs a function, got str"):
        server.resource("shop://x")("text")  # type: ignore[arg-type]


def test_an_entry_has_what_was_given_and_nothing_else() -> None:
    server = MCPServer("shop")

    @server.resource("shop://stock", mime_type="text/csv", size=9, annotations={"priority": 1}, title="Stock")
    def stock() -> str:
        """What is left."""
        return ""

    server.add_resource("shop://hours", "9 to 5")
    made: Any = server.resources.get_all()
    assert [resource.to_wire() for resource in made] == [
        {
            "uri": "shop://stock",
            "name": "stock",
            "title": "Stock",
            "description": "What is left",
            "mimeType": "text/csv",
            "size": 9,
            "annotations": {"priority": 1},
        },
        {"uri": "shop://hours", "name": "hours", "mimeType": "text/plain"},
    ]


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [("tea", "text/plain"), (b"tea", None), ({"a": 1}, "application/json"), (File("a"), "text/plain")],
)
async def test_fixed_content_may_be_kept_by_clients_and_has_a_type(
    content: Any, mime_type: str | None
) -> None:
    server = MCPServer("shop")
    server.add_resource("shop://it", content)
    made: Any = server.resources.get("shop://it")
    assert (made.ttl_ms, made.mime_type) == (3_600_000, mime_type)
    assert len(await server.read("shop://it")) == 1


# --- which resource a URI belongs to -------------------------------------------------------------------


async def test_an_exact_uri_comes_before_a_template_and_templates_in_order() -> None:
    server = MCPServer("shop")
    server.resource("shop://{first}")(lambda first: f"first {first}")
    server.resource("shop://{second}.txt")(lambda second: f"second {second}")
    server.resource("shop://tea")(lambda: "exact")
    assert (await server.read("shop://tea"))[0]["text"] == "exact"
    assert (await server.read("shop://a.txt"))[0]["text"] == "first a.txt"


async def test_another_spelling_of_an_exact_uri_is_that_resource_and_not_a_template() -> None:
    server = MCPServer("shop")
    server.resource("shop://{id}")(lambda id: f"template {id}")
    server.add_resource("shop://secret", "exact")
    assert await server.read("shop://%73ecret") == [
        {"uri": "shop://%73ecret", "mimeType": "text/plain", "text": "exact"}
    ]


async def test_a_template_does_not_replace_a_disabled_resource() -> None:
    server = MCPServer("shop")
    server.resource("shop://{id}")(lambda id: f"template {id}")
    server.add_resource("shop://secret", "exact")
    server.resources.disable("shop://secret")
    for uri in ("shop://secret", "shop://%73ecret"):
        with pytest.raises(ToolNotFoundError, match=f"Unknown resource: {uri}"):
            await server.read(uri)
    server.resources.enable("shop://secret")
    assert (await server.read("shop://secret"))[0]["text"] == "exact"


async def test_case_matters_in_uris() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://README", "upper")
    server.add_resource("shop://readme", "lower")
    server.add_resource("shop://Only", "only")
    assert (await server.read("shop://README"))[0]["text"] == "upper"
    assert (await server.read("shop://readme"))[0]["text"] == "lower"
    with pytest.raises(ToolNotFoundError):
        await server.read("shop://only")
    server.resources.remove("shop://README")
    assert [resource.name for resource in server.resources] == ["shop://readme", "shop://Only"]


async def test_an_alike_looking_uri_is_another_resource() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://order1", "digit")
    server.add_resource("shop://orderl", "letter")
    assert (await server.read("shop://orderl"))[0]["text"] == "letter"


def test_a_uri_is_taken_once_unless_duplicates_are_replaced() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://x", "one")
    with pytest.raises(DefinitionError, match="'shop://x' already registered"):
        server.add_resource("shop://x", "two")
    for mode, expected in (("keep", "one"), ("replace", "two")):
        other = MCPServer("shop", on_duplicate=mode)  # type: ignore[arg-type]
        other.resource("shop://x")(lambda: "one")
        other.resource("shop://x")(lambda: "two")
        made: Any = other.resources.get("shop://x")
        assert made.info.handler() == expected
        other.prompt("p")(lambda: "one")
        other.prompt("p")(lambda: "two")
        assert other.prompts.get("p").info.handler() == expected


async def test_templates_of_the_same_form_are_reported_when_the_server_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer("shop")
    server.resource("shop://{id}/x")(lambda id: id)
    server.resource("shop://{other}/y")(lambda other: other)
    server.resource("shop://{name}/x")(lambda name: name)
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with server:
            pass
    assert "'shop://{name}/x' is never read: 'shop://{id}/x' matches the same URIs" in caplog.text
    assert "{other}" not in caplog.text


# --- variables -----------------------------------------------------------------------------------------


async def test_variables_have_the_types_of_their_parameters() -> None:
    server = MCPServer("shop")

    @server.resource("shop://{number}/{color}{?exact,tags}")
    def find(number: int, color: Color, exact: bool = False, tags: list[str] | None = None) -> str:
        return repr((number, color, exact, tags))

    assert (await server.read("shop://5/red"))[0]["text"] == "(5, <Color.RED: 'red'>, False, None)"
    text = (await server.read('shop://-1/red?tags=["a","b"]&exact=true'))[0]["text"]
    assert text == "(-1, <Color.RED: 'red'>, True, ['a', 'b'])"
    with pytest.raises(CallError, match="'number': expected integer, got string 'x'"):
        await server.read("shop://x/red")
    with pytest.raises(CallError, match="'color'"):
        await server.read("shop://1/pink")


async def test_a_string_stays_a_string_even_if_it_looks_like_a_number() -> None:
    server = MCPServer("shop")
    server.resource("shop://{id}")(_show)
    for given in ("007", "true", "null", "1e5", "[1]"):
        assert (await server.read(f"shop://{given}"))[0]["text"] == repr(given)


def _show(id: str) -> str:
    return repr(id)


@pytest.mark.parametrize(
    "value", ["../x", "a/../b", "..", "/etc/passwd", "a%00b", "%2e%2e/x", "C:/x", "..%5Cx"]
)
async def test_values_that_leave_a_folder_are_not_found_unless_the_variable_is_exempt(value: str) -> None:
    server = MCPServer("shop")
    server.resource("shop://files/{+path}")(lambda path: path)
    server.resource("shop://raw/{+path}", unscreened=["path"])(lambda path: path)
    with pytest.raises(ToolNotFoundError):
        await server.read(f"shop://files/{value}")
    assert (await server.read(f"shop://raw/{value}"))[0]["text"]


async def test_a_template_without_its_value_gets_an_empty_string() -> None:
    server = MCPServer("shop")
    server.resource("shop://{id}")(_show)
    assert (await server.read("shop://"))[0]["text"] == "''"


# --- files and folders ---------------------------------------------------------------------------------


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "guide").mkdir(parents=True)
    (folder / "index.md").write_text("# Index")
    (folder / "INDEX.md").write_text("# Other")
    (folder / "guide" / "a b.md").write_text("# A B")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    (folder / ".env").write_text("SECRET=1")
    (tmp_path / "outside.txt").write_text("outside")
    return folder


async def test_a_folder_is_a_template_and_a_resource_for_each_file(docs: Path) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://", docs)
    assert sorted(resource.name for resource in server.resources) == [
        "docs://INDEX.md",
        "docs://guide/a%20b.md",
        "docs://index.md",
        "docs://logo.png",
        "docs://{+path}",
    ]
    assert await server.read("docs://index.md") == [
        {"uri": "docs://index.md", "mimeType": "text/markdown", "text": "# Index"}
    ]
    assert (await server.read("docs://INDEX.md"))[0]["text"] == "# Other"
    assert (await server.read("docs://guide/a%20b.md"))[0]["text"] == "# A B"
    assert (await server.read("docs://logo.png"))[0]["blob"] == base64.b64encode(b"\x89PNG").decode()


async def test_a_file_that_is_new_in_a_folder_can_be_read_and_one_that_has_gone_cannot(docs: Path) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://", docs)
    (docs / "new.md").write_text("new")
    (docs / "index.md").unlink()
    assert (await server.read("docs://new.md"))[0]["text"] == "new"
    with pytest.raises(CallError, match=r"'index\.md' not found"):
        await server.read("docs://index.md")


@pytest.mark.parametrize("path", ["../outside.txt", ".env", "guide", "guide/../index.md", "nothing.md", ""])
async def test_only_files_inside_of_a_folder_are_read(docs: Path, path: str) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://", docs)
    with pytest.raises((ToolNotFoundError, CallError), match=r"not found|Unknown resource"):
        await server.read(f"docs://{path}")


async def test_options_of_a_folder_are_those_of_its_files(docs: Path) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://", docs, mime_type="text/x-own", tags=["manual"], scopes=["docs:read"])
    for resource in server.resources:
        assert (resource.options.tags, resource.options.scopes) == (["manual"], ["docs:read"])
    assert (await server.read("docs://index.md"))[0]["mimeType"] == "text/x-own"


def test_a_folder_is_added_as_a_whole_or_not_at_all(docs: Path) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://logo.png", b"taken")
    with pytest.raises(BatchError, match="already registered"):
        server.add_resource("docs://", docs)
    assert [resource.name for resource in server.resources] == ["docs://logo.png"]


async def test_a_single_file_is_read_anew_each_time(docs: Path) -> None:
    server = MCPServer("shop")
    server.add_resource("docs://start", docs / "index.md")
    assert await server.read("docs://start") == [
        {"uri": "docs://start", "mimeType": "text/markdown", "text": "# Index"}
    ]
    (docs / "index.md").write_text("# Changed")
    assert (await server.read("docs://start"))[0]["text"] == "# Changed"


# --- other servers -------------------------------------------------------------------------------------


def make_other() -> MCPServer:
    other = MCPServer("other")
    other.tool("count")(lambda: 1)
    other.resource("other://{id}", tags=["b"])(lambda id: f"other {id}")
    other.add_resource("other://fixed", "fixed")
    other.prompt("greet", tags=["b"])(lambda name: f"Hello {name}")
    return other


async def test_a_server_brings_its_resources_and_prompts_along() -> None:
    server = MCPServer("shop")
    report = server.add(make_other(), namespace="o")
    assert [tool.name for tool in report.registered] == ["o_count"]
    assert [tool.name for tool in report.others] == ["other://{id}", "other://fixed", "o_greet"]
    assert (await server.read("other://1"))[0]["text"] == "other 1"
    assert (await server.get_prompt("o_greet", {"name": "Ada"}))[0]["content"]["text"] == "Hello Ada"
    with pytest.raises(ToolNotFoundError, match="Unknown prompt: greet"):
        await server.get_prompt("greet", {"name": "Ada"})


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        (["tool:*"], [], ["count"]),
        (["resource:*"], [], ["other://{id}", "other://fixed"]),
        (["prompt:greet"], [], ["greet"]),
        (["tag:b"], [], ["other://{id}", "greet"]),
        ([], ["resource:other://fixed"], ["count", "other://{id}", "greet"]),
        (["other://*"], [], ["other://{id}", "other://fixed"]),
        (["*"], ["prompt:*", "tool:count"], ["other://{id}", "other://fixed"]),
    ],
)
def test_selectors_choose_among_all_kinds(include: list[str], exclude: list[str], names: list[str]) -> None:
    server = MCPServer("shop")
    server.add(make_other(), include=include, exclude=exclude)
    assert [tool.name for tool in server.dispatcher.published()] == names


def test_anything_that_is_disabled_there_is_disabled_here() -> None:
    other = make_other()
    other.resources.disable("other://fixed")
    other.prompts.disable("greet")
    server = MCPServer("shop")
    server.add(other)
    assert [tool.name for tool in server.dispatcher.published()] == ["count", "other://{id}"]
    server.resources.enable("other://fixed")
    assert "other://fixed" in server.resources


async def test_resources_cannot_be_added_after_the_start_unless_the_server_is_dynamic() -> None:
    server = MCPServer("shop")
    async with server:
        for register in (
            lambda: server.add_resource("shop://x", "x"),
            lambda: server.resource("shop://x")(lambda: "x"),
            lambda: server.prompt("x")(lambda: "x"),
        ):
            with pytest.raises(Exception, match="after server has started"):
                register()
    changing = MCPServer("shop", dynamic=True)
    async with changing:
        changing.add_resource("shop://x", "x")
        assert (await changing.read("shop://x"))[0]["text"] == "x"


# --- running -------------------------------------------------------------------------------------------


async def test_errors_for_the_reader_are_shown_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer("shop")

    @server.resource("shop://sold-out")
    def sold_out() -> str:
        raise ToolError("No tea until Monday.")

    @server.resource("shop://crash")
    def crash() -> str:
        raise KeyError("password=hunter2")

    with pytest.raises(CallError, match=r"^No tea until Monday\.$"):
        await server.read("shop://sold-out")
    with pytest.raises(CallError, match="Resource 'shop://crash' failed unexpectedly") as failed:
        await server.read("shop://crash")
    assert "hunter2" not in str(failed.value)
    server.dispatcher.crashes.flush(5.0)
    assert "shop://crash" in caplog.text


async def test_plans_of_removed_resources_are_dropped() -> None:
    server = MCPServer("shop", dynamic=True)
    async with server:
        for number in range(20):
            server.add_resource(f"shop://{number}", "x")
            await server.read(f"shop://{number}")
            server.resources.remove(f"shop://{number}")
        server.add_resource("shop://last", "x")
        await server.read("shop://last")
        assert len(server.dispatcher._plan_of) == 1


async def test_a_change_of_tools_keeps_the_plans_of_resources() -> None:
    server = MCPServer("shop", dynamic=True)
    server.add_resource("shop://x", "x")
    server.tool("a")(lambda: 1)
    async with server:
        await server.read("shop://x")
        before = dict(server.dispatcher._plan_of)
        server.tool("b")(lambda: 2)
        await server.call("a")
        await server.read("shop://x")
        assert server.dispatcher._plan_of.items() >= before.items()


# --- mistakes ------------------------------------------------------------------------------------------


def test_a_bare_decorator_is_refused() -> None:
    server: Any = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="must be a string, got function") as refused:

        @server.resource
        def order() -> str:
            return ""

    assert refused.value.hint == 'give one: @server.resource("orders://{id}")'


async def test_text_that_is_not_utf8_is_sent_in_base64() -> None:
    (item,) = await read_result(b"caf\xe9", mime_type="text/plain")
    assert item == {"uri": "shop://it", "mimeType": "text/plain", "blob": "Y2Fm6Q=="}
    (item,) = await read_result("café".encode(), mime_type="text/plain")
    assert item["text"] == "café"


def test_a_function_is_not_fixed_content() -> None:
    server = MCPServer("shop")
    with pytest.raises(InvalidToolError, match="'shop://it' cannot be a function") as refused:
        server.add_resource("shop://it", lambda: "tea")
    assert refused.value.hint == 'for a function, use @server.resource("shop://it")'
    assert not list(server.resources)


def test_a_text_that_names_a_file_is_published_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers").mkdir()
    (tmp_path / "list.txt").write_text("tea")
    server = MCPServer("shop")
    for number, text in enumerate(("tea", "/", "other/", "papers and more", "a\0.b", "list.txt\n")):
        server.add_resource(f"shop://{number}", text)
    assert not caplog.records
    server.add_resource("shop://papers", "papers/")
    server.add_resource("shop://list", "list.txt")
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "resource 'shop://papers' is the text 'papers/'",
        "resource 'shop://list' is the text 'list.txt'",
    ]
    assert "give a pathlib.Path" in caplog.text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mimeType", "use mime_type=..."),
        ("mimetype", "did you mean 'mime_type'?"),
        ("uri_template", "give the URI first, with its variables in braces"),
        ("uriTemplate", "give the URI first, with its variables in braces"),
        ("auth", "use scopes=[...] and a policy"),
        ("tag", "did you mean 'tags'?"),
        ("zzz", "options: annotations, audit, description, enabled"),
    ],
)
def test_an_unknown_option_has_a_hint_of_the_options_of_resources(name: str, hint: str) -> None:
    server: Any = MCPServer("shop")
    with pytest.raises(InvalidToolError, match=f"(?m)^Unknown resource option: {name}$") as refused:
        server.resource("shop://it", **{name: "x"})(lambda: "tea")
    assert (refused.value.hint or "").startswith(hint)
    with pytest.raises(InvalidToolError, match=f"(?m)^Unknown resource option: {name}$"):
        server.resource("shop://{id}", **{name: "x"})(lambda id: id)


def test_an_unknown_option_of_a_prompt_or_an_app_names_their_kind() -> None:
    server: Any = MCPServer("shop")
    with pytest.raises(InvalidToolError, match=r"(?m)^Unknown prompt option: arguments$") as refused:
        server.prompt(lambda: "", name="it", arguments=[])
    assert refused.value.hint == "arguments are the parameters of the function"
    with pytest.raises(InvalidToolError, match=r"(?m)^Unknown app option: prefersBorder$") as refused:
        server.add_app("ui://it", "<!doctype html><html></html>", prefersBorder=True)
    assert refused.value.hint == "use prefers_border=..."


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mime_type": 3}, "must be a string, got 3"),
        ({"name": 3}, "must be a string, got 3"),
        ({"size": "large"}, "must be a number of bytes, got 'large'"),
        ({"size": True}, "must be a number of bytes, got True"),
        ({"ttl_ms": 1.5}, "must be a whole number of milliseconds, got 1.5"),
        ({"ttl_ms": -1}, "must be a whole number of milliseconds, got -1"),
        ({"annotations": ["user"]}, "must be a dict as MCP has it, got ['user']"),
        ({"annotations": {"audience": ["cat"]}}, "must be a dict as MCP has it"),
        ({"annotations": {"priority": 7}}, "must be a dict as MCP has it"),
        ({"annotations": {"lastModified": 7}}, "must be a dict as MCP has it"),
        ({"annotations": {"shelf": object()}}, "must be a dict as MCP has it"),
        ({"mime_type": "\ud800"}, "must be a string"),
        ({"unscreened": "path"}, "must be a list of variables, got 'path'"),
        ({"unscreened": 3}, "must be a list of variables, got 3"),
        ({"icons": [3]}, "must be a list of dicts with 'src', got [3]"),
        ({"icons": [{"url": "a"}]}, "must be a list of dicts with 'src'"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused(tmp_path: Path, options: Any, problem: str) -> None:
    def hello() -> str:
        return "Hello"

    server: Any = MCPServer("shop")
    [option] = options
    adds = [
        lambda: server.resource("shop://{id}", **options)(lambda id: id),
        lambda: server.add_resource("shop://tea", "tea", **options),
        lambda: server.add_resource("shop://files", tmp_path, **options),
    ]
    if option in ("name", "icons"):
        page = "<!doctype html><html></html>"
        adds += [lambda: server.add_app("ui://it", page, **options)]
        adds += [lambda: server.prompt(**options)(hello)]
    for add in adds:
        with pytest.raises(InvalidToolError) as refused:
            add()
        assert f"Option '{option}' {problem}" in str(refused.value)
        assert (refused.value.hint or "").startswith(f"such as {option}=")
    assert not (*server.resources, *server.prompts)


def test_annotations_that_mcp_does_not_define_are_kept() -> None:
    server = MCPServer("shop")
    given = {"audience": ["user"], "priority": 1, "lastModified": "2026-01-31T12:00:00Z", "shelf": 3}
    server.add_resource("shop://tea", "tea", annotations=given, mime_type=None, size=0)
    [tea] = server.resources
    assert tea.to_wire()["annotations"] == given
