"""`toolcrib serve` with resources and prompts, in a process of its own."""

from __future__ import annotations

from tests.support.servers.serve_process import Serving, start

from .conftest import ADD, SHOP, CommandLine


def test_resources_and_prompts_of_a_file_are_served(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    cli.write("tools.py", ADD)
    with Serving("shop.py", "tools.py", cwd=cli.folder) as serving:
        assert serving.names() == ["find_order", "add"]
        assert serving.info["resources"] == ["orders://list", "shop://logo"]
        assert serving.info["resourceTemplates"] == ["orders://{number}/invoice"]
        assert serving.info["prompts"] == ["complain", "thank"]
        read = serving.ask("resources/read", uri="orders://17/invoice")
        assert read["contents"][0]["text"] == "# Invoice 17"
        got = serving.ask("prompts/get", name="thank", arguments={"who": "Ana"})
        assert got["messages"][0]["content"]["text"] == "Thank Ana."


def test_the_start_message_counts_every_kind(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    process = start("serve", "--port", "0", "shop.py", cwd=cli.folder)
    with process:
        lines = [process.stderr.readline().rstrip() for _ in range(9)]
        process.terminate()
    assert lines[0] == "shop: serving 1 tool, 2 resources, 1 template and 2 prompts at"
    assert lines[3:] == [
        "  find_order: Find an order",
        "  resource orders://list: The numbers of all orders",
        "  resource shop://logo: The logo.",
        "  template orders://{number}/invoice: The invoice of an order",
        "  prompt complain: Complain about an order",
        "  prompt thank: Thank somebody",
    ]


ONLY = """
from toolcrib import MCPServer

server = MCPServer("only")
server.add_resource("shop://terms", "Pay soon.")
"""


def test_a_server_without_tools_is_served(cli: CommandLine) -> None:
    path = cli.write("only.py", ONLY)
    with Serving("only.py", "--reload", cwd=cli.folder) as serving:
        assert (serving.info["tools"], serving.info["resources"]) == ([], ["shop://terms"])
        path.write_text(ONLY.replace("Pay soon.", "Pay now."))
        serving.wait_for("note: reloaded 1 resource")
        assert serving.ask("resources/read", uri="shop://terms")["contents"][0]["text"] == "Pay now."


def test_only_disabled_resources_are_nothing_to_serve(cli: CommandLine) -> None:
    cli.write("only.py", ONLY.replace('"Pay soon."', '"Pay soon.", enabled=False'))
    done = cli.run("serve", "only.py", "--port", "0")
    assert done.exit_code == 1
    assert done.stderr == "error: Nothing to serve: everything is disabled\nhint: mark it with enabled=True\n"


def test_include_and_exclude_select_resources_and_prompts(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    settings = """
    [server]
    targets = ["shop.py"]
    [tools]
    exclude = ["prompt:*", "orders://*"]
    """
    cli.write("toolcrib.toml", settings)
    found = cli.json("list", "--json")
    assert [tool["name"] for tool in found["tools"]] == ["find_order"]
    assert [resource["uri"] for resource in found["resources"]] == ["shop://logo"]
    assert found.keys() == {"tools", "resources", "findings"}
