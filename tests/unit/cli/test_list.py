"""`toolcrib list`: a table for people, JSON for programs."""

from __future__ import annotations

from textwrap import dedent

from .conftest import ADD, SHOP, CommandLine

TAGGED = (
    ADD.replace("@tool", '@tool(tags=["sums"])')
    + ADD.replace("@tool", '@tool(tags=["other"])').replace("def add", "def add_more")
    + ADD.replace("def add", "def find")
)


def test_the_sample_tools_are_listed_if_asked_for(cli: CommandLine) -> None:
    done = cli.run("list", "--samples")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "DESCRIPTION", "PARAMETERS"]
    assert lines[1] == "hello_world  A simple greeting tool                  name?: string"
    assert "note: 2 tools disabled: list_files, read_file" in done.stderr


def test_the_json_of_a_list_is_tools_and_findings(cli: CommandLine) -> None:
    document = cli.json("list", "--samples", "--json")
    assert document.keys() == {"tools", "findings"}
    assert [tool["name"] for tool in document["tools"]] == [
        "hello_world",
        "echo",
        "get_time",
        "math_add",
        "debug_info",
    ]
    assert document["tools"][3]["outputSchema"]["type"] == "number"
    assert document["tools"][0]["source"]["file"].endswith("samples.py")
    assert cli.run("list", "--samples", "--json").stderr == ""


def test_tags_and_selectors_choose(cli: CommandLine) -> None:
    cli.write("tools.py", TAGGED)

    def names(*options: str) -> list[str]:
        return [tool["name"] for tool in cli.json("list", "tools.py", "--json", *options)["tools"]]

    assert names("--include", "add*") == ["add", "add_more"]
    assert names("--include", "add*", "--exclude", "add") == ["add_more"]
    assert names("--include", "tag:sums", "--include", "re:f.*") == ["add", "find"]


def test_a_broken_tool_is_reported_on_stderr_and_hides_no_other(cli: CommandLine) -> None:
    cli.write("tools.py", ADD + '\n@tool\ndef bad(x: "Nowhere"): "Never works at all."\n')
    done = cli.run("list", "tools.py")
    assert done.exit_code == 1
    assert "add" in done.stdout
    assert "bad" not in done.stdout
    assert done.stderr.startswith("error: tools.py:17: Parameter 'x' of tool 'bad'")
    document = cli.json("list", "tools.py", "--json")
    assert [tool["name"] for tool in document["tools"]] == ["add"]
    assert [finding["tool"] for finding in document["findings"]] == ["bad"]


def test_a_description_is_never_read_as_markup(cli: CommandLine) -> None:
    cli.write("tools.py", ADD.replace("Add two whole numbers.", "Add [bold]two[/bold] :smile: numbers."))
    assert "[bold]two[/bold] :smile:" in cli.run("list", "tools.py").stdout


def test_anything_that_a_target_prints_on_import_goes_to_stderr(cli: CommandLine) -> None:
    cli.write("tools.py", "print('hello from import')\n" + ADD)
    done = cli.run("list", "tools.py", "--json")
    assert done.stdout.startswith("{")
    assert "hello from import" in done.stderr


def test_disabled_tools_are_a_note_and_no_error(cli: CommandLine) -> None:
    cli.write("tools.py", ADD.replace("@tool", "@tool(enabled=False)"))
    done = cli.run("list", "tools.py")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "note: 1 tool disabled: add" in done.stderr
    assert "note: no tools, resources or prompts found" in done.stderr


# --- resources and prompts ---------------------------------------------------------------------------


def test_resources_templates_and_prompts_have_tables_of_their_own(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    done = cli.run("list", "shop.py")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == dedent(
        """\
        NAME        DESCRIPTION    PARAMETERS
        find_order  Find an order  number: integer

        RESOURCE       DESCRIPTION                TYPE
        orders://list  The numbers of all orders  -
        shop://logo    The logo.                  image/png

        TEMPLATE                   DESCRIPTION              TYPE
        orders://{number}/invoice  The invoice of an order  text/markdown

        PROMPT    DESCRIPTION              PARAMETERS
        complain  Complain about an order  order: integer, tone?: "polite" | "firm"
        thank     Thank somebody           who: string
        """
    )


def test_json_has_lists_of_those_kinds_that_there_are(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    cli.write("tools.py", ADD)
    assert cli.json("list", "tools.py", "--json").keys() == {"tools", "findings"}
    found = cli.json("list", "shop.py", "--json")
    assert list(found) == ["tools", "resources", "resourceTemplates", "prompts", "findings"]
    logo = found["resources"][1]
    line = SHOP[: SHOP.index("server.add_resource")].count("\n") + 1
    assert logo["source"] == {"file": str(cli.folder / "shop.py"), "line": line}
    assert (logo["uri"], logo["mimeType"]) == ("shop://logo", "image/png")
    assert found["resourceTemplates"][0]["uriTemplate"] == "orders://{number}/invoice"
    assert [item["name"] for item in found["prompts"][0]["arguments"]] == ["order", "tone"]


def test_selectors_choose_among_every_kind(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    found = cli.json("list", "shop.py", "--json", "--include", "orders://*", "--include", "thank")
    names = {key: [item.get("uri") or item["name"] for item in found[key]] for key in found}
    del names["findings"]
    assert names == {
        "tools": [],
        "resources": ["orders://list"],
        "resourceTemplates": ["invoice"],
        "prompts": ["thank"],
    }
