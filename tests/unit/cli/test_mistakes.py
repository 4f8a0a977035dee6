"""Typical mistakes of somebody who writes a first server, with the exact messages.

Each message says what is wrong, where (file and line, where there are any), and what to do; none shows a
traceback of toolcrib.
"""

# ruff: noqa: E501 - messages as they are printed

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from textwrap import dedent

import pytest

from tests.support.servers.serve_process import Serving
from toolcrib import MCPServer

from .conftest import CommandLine

SHOP = '''\
from dataclasses import dataclass
from toolcrib import Context, tool


@dataclass
class Item:
    article: str
    quantity: int = 1


@tool
def order(items: list[Item], note: str = "") -> int:
    """Order items."""
    return len(items)


@tool
def share(total: int, parts: int) -> int:
    """Divide a total into equal parts."""
    return total // parts


@tool
def find_image(article: str) -> dict:
    """Find the picture of an article."""
    return {"image": object()}


@tool
def export_all() -> str:
    """Export all orders."""
    return "x" * 20_000_000


@tool
async def greet(ctx: Context) -> str:
    """Greet the user."""
    answer = await ctx.elicit("Your name?")
    return f"Hello {answer}"
'''


@dataclass
class Mistake:
    """A command and the lines that it prints; `{}` in them stands for what differs from run to run."""

    id: str
    command: str
    message: str
    files: Mapping[str, str] = field(default_factory=dict)


def of_source(id: str, source: str, message: str) -> Mistake:
    """A mistake in a file of tools, which `check` reports."""
    return Mistake(id, "check tools.py", message, {"tools.py": source})


IN_SOURCE = [
    of_source(
        "variable arguments",
        '''\
        from toolcrib import MCPServer

        server = MCPServer("shop")


        @server.tool
        def add_up(*prices: float) -> float:
            """Add up prices."""
            return sum(prices)


        @server.tool
        def find_price(article: str) -> float:
            """Find the price of an article."""
            return 4.5
        ''',
        """\
        ok       find_price  tools.py:12
        refused  add_up      tools.py:6

        tools.py:6: error[invalid-signature] Tool 'add_up' takes *prices, which no schema can describe
            hint: name each parameter, or give an explicit input_schema
        """,
    ),
    of_source(
        "missing type hint",
        '''\
        from toolcrib import tool


        @tool
        def find_price(article) -> float:
            """Find the price of an article."""
            return 4.5
        ''',
        """\
        tools.py:5: warning[untyped-parameter] Parameter 'article' of 'find_price' has no type: any value is accepted
            hint: add a type hint: `article: str`
        """,
    ),
    of_source(
        "parameter of the docstring that does not exist",
        '''\
        from toolcrib import tool


        @tool
        def find_price(article: str) -> float:
            """Find the price of an article.

            Args:
                artikel: The article number
            """
            return 4.5
        ''',
        """\
        tools.py:4: warning[stale-parameter] The docstring describes a parameter 'artikel' that does not exist
            hint: did you mean 'article'?
        """,
    ),
    of_source(
        "type that is not defined, and a default of another type",
        '''\
        from toolcrib import tool


        @tool
        def find_order(order: "Oder", limit: int = "ten") -> str:
            """Find an order."""
            return "A7"
        ''',
        """\
        tools.py:4: error[invalid-signature] Parameter 'order' of tool 'find_order' has an annotation that cannot be resolved: name 'Oder' is not defined
            hint: import the name at run time, at the top of the module, not under TYPE_CHECKING
        tools.py:4: error[invalid-signature] Parameter 'limit' of tool 'find_order' has the default 'ten', which does not fit its hint
            hint: change one of them
        """,
    ),
    of_source(
        "module that is not installed",
        """\
        from fastmcpp import FastMCP
        """,
        """\
        tools.py:1: error[unreadable-source] tools.py cannot be imported: ModuleNotFoundError: No module named 'fastmcpp'
            hint: install it, or correct the import
        """,
    ),
    Mistake(
        "files that import each other",
        "check orders.py",
        """\
        orders.py:2: error[unreadable-source] orders.py cannot be imported: ImportError: cannot import name 'order' from partially initialized module 'orders' (most likely due to a circular import) (orders.py) (at stock.py:1)
            hint: two files import each other: move what both need to a third one, or import inside a function
        """,
        {
            "orders.py": "from toolcrib import tool\nfrom stock import reserve\n\n\ndef order(): ...\n",
            "stock.py": "from orders import order\n\n\ndef reserve(): ...\n",
        },
    ),
    of_source(
        "syntax error",
        """\
        from toolcrib import tool


        @tool
        def find_price(article: str) -> float
            return 4.5
        """,
        """\
        tools.py:5: error[unreadable-source] tools.py has a syntax error: expected ':'
            def find_price(article: str) -> float
                                                 ^
        """,
    ),
    of_source(
        "functions without a mark",
        '''\
        def find_price(article: str) -> float:
            """Find the price of an article."""
            return 4.5
        ''',
        """\
        tools.py: error[no-marked-tools] 1 function found, none marked
            hint: add @tool, or name one, tools.py:find_price
        """,
    ),
    of_source(
        "marked method of a plain class",
        '''\
        from toolcrib import tool


        class Shop:
            @tool
            def find_price(self, article: str) -> float:
                """Find the price of an article."""
                return 4.5
        ''',
        """\
        tools.py: error[no-tools] tools.py has no tools
            hint: methods marked with @tool belong to an application: class Shop(Application)
        """,
    ),
    of_source(
        "name that is not ASCII",
        '''\
        from toolcrib import tool


        @tool
        def größe(article: str) -> str:
            """Find the size of an article."""
            return "XL"
        ''',
        """\
        tools.py:4: error[invalid-name] Tool name 'größe' invalid (must contain only letters, digits, underscores, hyphens, dots)
            hint: 'ö' (LATIN SMALL LETTER O WITH DIAERESIS) is not permitted in a name; name it 'groesse'
        """,
    ),
    of_source(
        "two tools of the same name",
        '''\
        from toolcrib import tool


        @tool
        def find_price(article: str) -> float:
            """Find the price of an article."""
            return 4.5


        @tool(name="find_price")
        def find_price_of_order(order: str) -> float:
            """Find the price of an order."""
            return 9.0
        ''',
        """\
        tools.py:10: error[duplicate-name] Tool 'find_price' already registered
            hint: the first one is at tools.py:4; rename one, give a namespace or a version
        """,
    ),
    of_source(
        "decorator of a server that does not exist",
        '''\
        @server.tool
        def find_price(article: str) -> float:
            """Find the price of an article."""
            return 4.5
        ''',
        """\
        tools.py:1: error[unreadable-source] tools.py cannot be imported: NameError: name 'server' is not defined
            hint: define it above, server = MCPServer('name'), or mark the function with @tool
        """,
    ),
    of_source(
        "misspelt option",
        '''\
        from toolcrib import tool


        @tool(readonly=True)
        def find_price(article: str) -> float:
            """Find the price of an article."""
            return 4.5
        ''',
        """\
        tools.py:4: error[invalid-tool] Unknown tool option: readonly
            hint: did you mean 'read_only'?
        """,
    ),
    of_source(
        "something that is not a tool",
        """\
        from toolcrib import MCPServer

        server = MCPServer("shop")
        server.add(4.5)
        """,
        """\
        tools.py:4: error[invalid-tool] Cannot read tools from float
            hint: add a function, an application, a tool object, a table, a module, a file or a folder
        """,
    ),
    of_source(
        "table that has no definitions",
        """\
        from toolcrib import MCPServer

        server = MCPServer("shop")
        server.add({"tea": 4.5})
        """,
        """\
        tea: error[table-mismatch] Entry 'tea' of the table is not a definition
            hint: give a dict
        """,
    ),
    of_source(
        "schema that is not one",
        """\
        from toolcrib import MCPServer

        server = MCPServer("shop")


        @server.tool("find_price", "Find a price", {"type": "object", "properties": {"article": {"type": "str"}}})
        def find_price(arguments: dict) -> float:
            return 4.5
        """,
        """\
        tools.py:6: error[invalid-schema] The input schema of tool 'find_price' is invalid: "str" is not a type: use string, number, integer, boolean, array, object or null (at properties/article/type)
        """,
    ),
    of_source(
        "server that runs when it is imported",
        """\
        from toolcrib import MCPServer

        server = MCPServer("shop")
        server.run("http")
        """,
        """\
        tools.py:4: error[unreadable-source] tools.py cannot be imported: ConfigurationError: server.run() is called while tools.py is imported
            hint: put it below `if __name__ == "__main__":`
        """,
    ),
    Mistake(
        "method of another library's context",
        "check shop.py",
        """\
        shop.py:38: warning[unknown-context] The code uses ctx.elicit, which a Context does not have
            hint: use ctx.ask('key', message, Model)
        """,
    ),
]

IN_COMMANDS = [
    Mistake(
        "misspelt command",
        "servee shop.py",
        """\
        error: No such command 'servee'
        hint: did you mean 'serve'?
        """,
    ),
    Mistake(
        "run, as elsewhere",
        "run shop.py",
        """\
        error: No such command 'run'
        hint: use toolcrib serve
        """,
    ),
    Mistake(
        "install, as elsewhere",
        "install shop.py",
        """\
        error: No such command 'install'
        hint: use toolcrib connect
        """,
    ),
    Mistake(
        "inspect, as elsewhere",
        "inspect shop.py",
        """\
        error: No such command 'inspect'
        hint: use toolcrib list or toolcrib show
        """,
    ),
    Mistake(
        "misspelt file",
        "check shoop.py",
        """\
        error: No such file or folder: shoop.py
        hint: did you mean 'shop.py'?
        """,
    ),
    Mistake(
        "file in place of a module",
        "check shp",
        """\
        error: There is no module 'shp'
        hint: did you mean 'shop'?
        """,
    ),
    Mistake(
        "misspelt function of a file",
        "check shop.py:oder",
        """\
        shop.py: error[unreadable-source] There is no 'oder' in shop.py
            hint: did you mean 'order'?
        """,
    ),
    Mistake(
        "misspelt tool",
        "call oder -t shop.py",
        """\
        error: Unknown tool: oder
        hint: did you mean 'order'?
        """,
    ),
    Mistake(
        "misspelt argument",
        "call order itmes:=[] -t shop.py",
        """\
        error: Invalid arguments for tool 'order':
        - 'itmes': not a parameter of this tool (did you mean 'items'?)
        - 'items': required, but missing
        hint: parameters: items: object[], note?: string
        """,
    ),
    Mistake(
        "misspelt argument of an argument",
        'call order items:=[{"article":"x","quantitty":2}] -t shop.py',
        """\
        error: Invalid arguments for tool 'order': 'items[0].quantitty': not a known name (did you mean 'quantity'?)
        hint: parameters: items: object[], note?: string
        """,
    ),
    Mistake(
        "argument of another type",
        "call order items=5 -t shop.py",
        """\
        error: Invalid arguments for tool 'order': 'items': expected array, got integer 5
        hint: give it as JSON: items:='["a", "b"]'
        """,
    ),
    Mistake(
        "argument without a name",
        "call share 10 -t shop.py",
        """\
        error: '10' is not KEY=VALUE
        hint: arguments are KEY=VALUE or KEY:=JSON; --json takes a JSON object""",
    ),
    Mistake(
        "argument as an option",
        "call share --total 10 -t shop.py",
        """\
        error: No such option: --total
        hint: write arguments of the tool without dashes: total=VALUE
        """,
    ),
    Mistake(
        "option of another command line",
        "serve shop.py --transport stdio",
        """\
        error: No such option: --transport
        hint: add --stdio to serve on stdio; HTTP is the default
        """,
    ),
    Mistake(
        "misspelt option of a tool",
        "list shop.py",
        """\
        error: shop.py:4: Unknown tool option: readonly
        hint: did you mean 'read_only'?
        """,
        {
            "shop.py": """\
                from toolcrib import tool


                @tool(readonly=True)
                def order(article: str) -> str:
                    return article
            """
        },
    ),
    Mistake(
        "server of another package",
        "list shop.py",
        """\
        error: shop.py:1: shop.py cannot be imported: ImportError: toolcrib has no 'FastMCP' (use `from toolcrib import MCPServer`)
        hint: correct the import, or install another version
        """,
        {"shop.py": "from toolcrib import FastMCP"},
    ),
    Mistake(
        "date-time without an offset",
        "call remind at=2026-11-16T10:00:00 -t reminders.py",
        """\
        error: Invalid arguments for tool 'remind': 'at': expected a date-time such as 2026-11-16T10:00:00Z, got string '2026-11-16T10:00:00' (the offset from UTC is missing: add Z, or one such as +01:00)
        hint: parameters: at: string (date-time)
        """,
        {
            "reminders.py": '''\
            from pydantic import AwareDatetime
            from toolcrib import tool


            @tool
            def remind(at: AwareDatetime) -> str:
                """Remind the user."""
                return at.isoformat()
            '''
        },
    ),
    Mistake(
        "tool that raises",
        "call share total=10 parts=0 -t shop.py",
        """\
        error: tool 'share' raised ZeroDivisionError: integer division or modulo by zero (call {}), at shop.py:20
        hint: --debug shows the traceback
        error: Tool 'share' failed unexpectedly (reference {}).
        """,
    ),
    Mistake(
        "result that JSON cannot express",
        "call find_image article=tea -t shop.py",
        """\
        error: Tool 'find_image' returned a result that cannot be sent: a value of type object has no JSON form (use text, numbers, lists, dicts or models)
        """,
    ),
    Mistake(
        "result that is too large",
        "call export_all -t shop.py",
        """\
        error: Tool 'export_all' returned a result that cannot be sent: it is larger than 16384 KiB (ask for less at a time; the tool can return a part per call, or a Link to the whole)
        """,
    ),
    Mistake(
        "method of another library's context, called",
        "call greet -t shop.py",
        """\
        error: tool 'greet' raised AttributeError: Context has no attribute 'elicit' (use ctx.ask('key', message, Model)) (call {}), at shop.py:38
        hint: --debug shows the traceback
        error: Tool 'greet' has an error: Context has no attribute 'elicit' (use ctx.ask('key', message, Model)) (reference {}).
        """,
    ),
    Mistake(
        "misspelt client",
        "connect curser shop.py",
        """\
        error: Unknown client: curser
        hint: did you mean 'cursor'?
        """,
    ),
    Mistake(
        "everybody may call",
        "serve shop.py --host 0.0.0.0",
        """\
        error: host: other machines can reach 0.0.0.0, and callers are not authenticated
        hint: configure keys or an authorization server under [auth], or allow everybody to call: --insecure (insecure=True in code)
        """,
    ),
]

IN_SETTINGS = [
    Mistake(
        "misspelt key",
        "check",
        """\
        toolcrib.toml:2: error[invalid-configuration] server.tragets: unknown key
            hint: did you mean 'targets'?
        """,
        {"toolcrib.toml": '[server]\ntragets = ["shop.py"]\n'},
    ),
    Mistake(
        "rule in another language",
        "check",
        """\
        toolcrib.toml:5: error[invalid-configuration] rules[1].effect: unknown key
        toolcrib.toml:6: error[invalid-configuration] rules[1].tools: unknown key
            hint: known keys: allow, deny, confirm, who, when, because, name
        """,
        {
            "toolcrib.toml": """\
            [server]
            targets = ["shop.py"]

            [[rules]]
            effect = "deny"
            tools = ["order"]
            """
        },
    ),
    Mistake(
        "rule for a tool that does not exist",
        "check",
        """\
        shop.py:38: warning[unknown-context] The code uses ctx.elicit, which a Context does not have
            hint: use ctx.ask('key', message, Model)
        toolcrib.toml:5: error[invalid-configuration] rules[1].deny: 'oder' matches no tool
            hint: did you mean 'order'?
        """,
        {"toolcrib.toml": '[server]\ntargets = ["shop.py"]\n\n[[rules]]\ndeny = ["oder"]\n'},
    ),
    Mistake(
        "keys that do not exist",
        "serve",
        """\
        error: toolcrib.toml:5: auth.keys: keys.json: no such file
        hint: create a key: toolcrib keys create NAME --file keys.json
        """,
        {"toolcrib.toml": '[server]\ntargets = ["shop.py"]\n\n[auth]\nkeys = "keys.json"\n'},
    ),
]


def lines_of(text: str) -> str:
    """Return the text without what differs from run to run."""
    return re.sub(r"\b[0-9a-f]{8}\b", "{}", text)


@pytest.mark.parametrize(
    "mistake", [pytest.param(item, id=item.id) for item in (*IN_SOURCE, *IN_COMMANDS, *IN_SETTINGS)]
)
def test_the_message_names_what_is_wrong_where_and_what_to_do(cli: CommandLine, mistake: Mistake) -> None:
    cli.write("shop.py", SHOP)
    for name, text in mistake.files.items():
        cli.write(name, text)
    done = cli.run(*mistake.command.split())
    printed = lines_of(done.stdout + done.stderr)
    assert dedent(mistake.message) in printed
    assert "Traceback" not in printed


def test_a_port_that_is_in_use(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli.run("serve", "shop.py", "--port", str(port))
    assert re.fullmatch(
        rf"error: Port {port} is in use\nhint: use --port \d+, or --port 0 for any free port\n", done.stderr
    )


def test_an_address_where_nothing_listens(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    done = cli.run("list", address)
    assert done.stderr == f"error: Cannot connect to {address}: is the server running?\n"


class WebSite(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_the_address_of_a_web_site(cli: CommandLine) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), WebSite) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{site.server_port}/"
        done = cli.run("list", address)
        site.shutdown()
    assert done.stderr == (
        f"error: No MCP server at {address} (501 Not Implemented): check the path, usually /mcp\n"
    )


def test_a_missing_or_wrong_api_key(cli: CommandLine) -> None:
    cli.write("shop.py", SHOP)
    cli.write("toolcrib.toml", '[server]\ntargets = ["shop.py"]\n\n[auth]\nkeys = "keys.json"\n')
    cli.run("keys", "create", "ana", "--file", "keys.json")
    with Serving(cwd=cli.folder) as serving:
        missing = cli.run("list", serving.address)
        wrong = cli.run("list", serving.address, "--header", "X-API-Key: tck_wrong")
    hint = "hint: send a key with --header 'Authorization: Bearer KEY'\n"
    denied = "denied access (401 Unauthorized): an Authorization header may be required"
    assert missing.stderr == f"error: {serving.address} {denied}\n{hint}"
    rejected = "rejected the credentials (401 Unauthorized): wrong, expired or revoked?"
    assert wrong.stderr == f"error: {serving.address} {rejected}\n{hint}"


def test_an_extra_that_is_not_installed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    cli.write("tools.yaml", "tools: []\n")
    assert cli.run("list", "tools.yaml").stderr == (
        "error: tools.yaml: tools.yaml is YAML, but PyYAML is not installed\n"
        "hint: pip install 'toolcrib[yaml]', or write JSON\n"
    )


async def test_a_server_that_is_run_in_an_event_loop_without_await() -> None:
    with pytest.warns(RuntimeWarning, match=r"^coroutine 'MCPServer\.run' was never awaited$"):
        MCPServer("shop").run("http")
