"""`toolcrib explain`: the decision about a call, and the rule that decides."""

from __future__ import annotations

import shlex

import pytest

from tests.support.records.key_files import Keys

from .conftest import SHOP, CommandLine

TOOLS = '''
from toolcrib import tool

@tool(scopes=["orders:write"], destructive=True)
def refund(order: str, amount: float = 1000) -> str:
    """Give money back."""
    return order

@tool
def find(q: str) -> str:
    """Find an order."""
    return q

@tool
def wipe(path: str) -> str:
    """Remove a file."""
    return path
'''
SETTINGS = """
[server]
targets = ["tools.py"]

[roles]
support = ["key:ana", "oauth:*"]

[[rules]]
allow = ["find"]

[[rules]]
name = "small refunds"
allow = ["refund"]
who = ["role:support"]
when = { amount = { at_most = 100 } }
because = "a manager has to do it"

[[rules]]
confirm = ["hint:destructive"]
because = "Money leaves the house."

[[rules]]
allow = ["wipe"]
who = ["local"]
when = { path = { below_path = "/srv/tmp" } }

[[limits]]
rate = "60/min"
"""
WRITE = ["--scope", "orders:write"]
KEYS = """
[auth]
keys = "keys.json"
"""


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    cli.write("tools.py", TOOLS)
    cli.write("toolcrib.toml", SETTINGS)
    return cli


def test_without_a_tool_all_tools_are_listed(shop: CommandLine) -> None:
    done = shop.run("explain", "--as", "key:ana")
    assert done.stdout.splitlines() == [
        "NAME    CALL                DECIDED BY",
        "refund  needs orders:write  scope orders:write",
        "find    allowed             rule 1 (toolcrib.toml:8)",
        "wipe    hidden              the default, deny",
    ]
    assert (done.exit_code, done.stderr) == (0, "")
    done = shop.run("explain", "--as", "key:ana", "--scope", "orders:write")
    assert "refund  depends on arguments  rule 2" in done.stdout


def test_the_default_caller_is_local(shop: CommandLine) -> None:
    done = shop.run("explain", "wipe", "path=/srv/tmp/a")
    assert done.stdout.splitlines() == [
        "local calls wipe: allowed by rule 4 (toolcrib.toml:22).",
        "",
        "  roles   none",
        "  scopes  none",
        '  allow   rule 4 (toolcrib.toml:22)  applies: path below_path "/srv/tmp" (it is "/srv/tmp/a")',
        "  default deny",
        "  limit   1: rate 60 in 60 s, per principal",
    ]
    assert done.exit_code == 0


MANAGER = 'rule 2 "small refunds" (toolcrib.toml:11) (a manager has to do it)'
MONEY = "allowed after confirmation, required by rule 3 (toolcrib.toml:18): Money leaves the house."


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("--as key:bob refund", 1, "denied by the default, deny. The tool is hidden from this caller."),
        ("--as key:ana refund", 1, "refused, missing scope: orders:write. The tool is listed."),
        ("--as key:ana --scope orders:write refund", 0, "depends on the arguments."),
        ("--as key:ana --scope orders:write refund order=1", 1, f"denied for these arguments by {MANAGER}."),
        ("""--as oauth:1 --scope orders:write refund --args '{"order": "1", "amount": 5}'""", 0, MONEY),
        ("--as key:x --role support --scope orders:write refund order=1 amount=7", 0, MONEY),
        ("wipe path=/srv/tmp/../x", 1, "denied for these arguments by rule 4 (toolcrib.toml:22)."),
        ("find", 0, "allowed by rule 1 (toolcrib.toml:8)."),
        ("wipe", 0, "depends on the arguments."),
    ],
)
def test_the_first_line_is_the_verdict(shop: CommandLine, arguments: str, code: int, words: str) -> None:
    given = shlex.split(arguments)
    caller = given[1] if given[0] == "--as" else "local"
    tool = next(word for word in given if word in ("refund", "wipe", "find"))
    done = shop.run("explain", *given)
    assert done.stdout.splitlines()[0] == f"{caller} calls {tool}: {words}"
    assert (done.exit_code, done.stderr) == (code, "")


def test_a_rule_for_other_callers_is_explained(shop: CommandLine) -> None:
    lines = shop.run("explain", "--as", "key:bob", "refund").stdout.splitlines()
    assert lines[3] == "  scopes  none (required: orders:write)"
    assert lines[4].endswith("does not apply: it is for role:support")
    assert lines[5].startswith("  confirm rule 3 (toolcrib.toml:18) ")


def test_invalid_arguments_are_an_error_unless_the_call_is_refused(shop: CommandLine) -> None:
    done = shop.run("explain", "find", "qq=1")
    assert done.exit_code == 2
    assert "Invalid arguments for tool 'find'" in done.stderr
    assert "hint: rules are checked for valid arguments only" in done.stderr
    done = shop.run("explain", "--as", "key:bob", "wipe", "paht=1")
    assert done.exit_code == 1
    assert "hidden from this caller" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fnid"], "Unknown tool: fnid"),
        (["--args", "{}"], "--args requires a name"),
        (["find", "--args", "[]"], "The arguments after --args must be a JSON object"),
        (["find", "q"], "'q' is not KEY=VALUE"),
        (["--as", "role:support", "find"], "'role:support' is not a caller"),
        (["--as", "", "find"], "'' is not a caller"),
    ],
)
def test_wrong_usage_is_an_error(shop: CommandLine, arguments: list[str], words: str) -> None:
    done = shop.run("explain", *arguments)
    assert done.exit_code == 2
    assert f"error: {words}" in done.stderr
    assert done.stdout == ""


def test_an_impossible_caller_is_a_warning(shop: CommandLine) -> None:
    done = shop.run("explain", "--as", "ana", "find")
    assert done.exit_code == 0
    assert "warning: no principal can be named 'ana'" in done.stderr
    assert shop.run("explain", "--as", "anonymous", "find").stderr == ""


def test_programs_get_json(shop: CommandLine) -> None:
    one = shop.json("explain", "--as", "key:bob", "refund", "--json")
    assert (one["verdict"], one["refused"], one["key"], one["rule"]) == ("hidden", True, None, "default")
    assert [step["effect"] for step in one["steps"]] == ["allow", "confirm"]
    every = shop.json("explain", "--as", "key:ana", "--scope", "x", "--json")
    assert every["principal"] == {"name": "key:ana", "roles": ["support"], "scopes": ["x"]}
    assert [(tool["tool"], tool["verdict"]) for tool in every["tools"]] == [
        ("refund", "scope"),
        ("find", "allowed"),
        ("wipe", "hidden"),
    ]


def test_without_a_policy_everybody_may_call_everything(cli: CommandLine) -> None:
    cli.write("tools.py", TOOLS)
    done = cli.run("explain", "-t", "tools.py", "find", "q=1")
    assert done.stdout.splitlines()[0] == "local calls find: allowed by the default, allow."
    assert "  rules   no rule matches this tool" in done.stdout
    assert "note: no policy" in done.stderr


def test_problems_of_the_policy_are_reported(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", SETTINGS + '\n[[rules]]\ndeny = ["nothing"]\n')
    done = shop.run("explain", "find", "q=1")
    assert done.exit_code == 0
    assert "error: toolcrib.toml:31: rules[5].deny: 'nothing' matches no tool" in done.stderr


def test_a_key_brings_its_scopes_and_roles(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", SETTINGS + KEYS)
    Keys(shop.folder / "keys.json").create("eve", ["orders:write"], ["support"])
    done = shop.run("explain", "--as", "key:eve", "refund", "order=1", "amount=5")
    assert done.exit_code == 0
    assert done.stdout.startswith("key:eve calls refund: allowed after confirmation, required by rule 3")
    assert shop.json("explain", "--as", "key:eve", "find", "--json")["key"] == "active"
    done = shop.run("explain", "--as", "key:evee", "find")
    assert done.exit_code == 2
    assert "No key 'evee'" in done.stderr
    assert "did you mean 'eve'?" in done.stderr


def test_a_key_is_explained_without_its_key_file(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", SETTINGS + KEYS)
    done = shop.run("explain", "--as", "key:ben", "--scope", "orders:write", "find")
    assert done.exit_code == 0
    assert done.stdout.startswith("key:ben calls find: allowed by ")
    assert "  scopes  orders:write" in done.stdout
    text = "roles and scopes of key:ben are those of --role and --scope"
    assert done.stderr == f"note: no key file keys.json: {text}\n"


def test_an_unreadable_key_file_is_reported_with_its_setting(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", SETTINGS + KEYS)
    shop.write("keys.json", "broken")
    done = shop.run("explain", "--as", "key:eve", "find")
    assert done.exit_code == 2
    line = (SETTINGS + KEYS).splitlines().index('keys = "keys.json"') + 1
    assert f"error: toolcrib.toml:{line}: auth.keys: keys.json: " in done.stderr


def test_a_revoked_key_is_refused(shop: CommandLine) -> None:
    shop.write("toolcrib.toml", SETTINGS + KEYS)
    keys = Keys(shop.folder / "keys.json")
    keys.create("eve", [], [])
    keys.revoke("eve")
    done = shop.run("explain", "--as", "key:eve", "find")
    assert done.exit_code == 1
    assert "The key is revoked: HTTP requests with it are refused with 401." in done.stdout
    table = shop.run("explain", "--as", "key:eve")
    assert table.exit_code == 1
    assert "warning: the key is revoked" in table.stderr
    assert shop.run("explain", "--as", "key:eve", "--json").exit_code == 1
    assert shop.json("explain", "--as", "key:eve", "find", "--json")["refused"] is True
    keys.create("eve", ["orders:write"], [])
    assert shop.json("explain", "--as", "key:eve", "find", "--json")["key"] == "active"


CHECKED = '''
from typing import Annotated
from pydantic import AfterValidator
from toolcrib import tool

def fold(text: str) -> str:
    if text == "crash":
        raise TypeError("no such user")
    if text == "bad":
        raise ValueError("not a user")
    return text.strip()

@tool
def find(user: Annotated[str, AfterValidator(fold)]) -> str:
    """Find a user."""
    return user
'''


def test_converted_arguments_are_judged_and_shown(cli: CommandLine) -> None:
    cli.write("tools.py", CHECKED)
    rule = '[[rules]]\ndeny = ["find"]\nwhen = { user = "root" }\n'
    cli.write("toolcrib.toml", f'[server]\ntargets = ["tools.py"]\n{rule}')
    done = cli.run("explain", "find", "user= root")
    assert done.exit_code == 1
    assert 'applies: user equals "root" (it is " root", the tool gets "root")' in done.stdout
    done = cli.run("explain", "find", "user=bad")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'user': not a user" in done.stderr
    done = cli.run("explain", "find", "user=crash")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Cannot convert the arguments of 'find': TypeError: no such user" in done.stderr


# --- resources and prompts ---------------------------------------------------------------------------

RULES = """
[server]
targets = ["shop.py"]

[[rules]]
allow = ["find_order", "orders://*", "prompt:complain"]

[[rules]]
deny = ["resource:orders://{number}/invoice"]
when = {number = {above = 50}}
"""


@pytest.fixture
def features(cli: CommandLine) -> CommandLine:
    cli.write("shop.py", SHOP)
    cli.write("toolcrib.toml", RULES)
    return cli


def test_every_resource_and_prompt_has_its_line(features: CommandLine) -> None:
    rows = [line.split("  ")[0] for line in features.run("explain").stdout.splitlines()[1:]]
    assert rows[1:] == [
        *("resource:orders://list", "resource:orders://{number}/invoice", "resource:shop://logo"),
        *("prompt:complain", "prompt:thank"),
    ]
    found = features.json("explain", "--json")
    assert list(found) == ["principal", "key", "tools", "resources", "resourceTemplates", "prompts"]
    assert [item["verdict"] for item in found["prompts"]] == ["allowed", "hidden"]
    assert found["prompts"][0]["tool"] == "prompt:complain"


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("orders://17/invoice", 0, "local reads resource:orders://{number}/invoice: allowed by rule 1"),
        ("resource:orders://17/invoice", 0, "local reads resource:orders://{number}/invoice: allowed by"),
        ("orders://77/invoice", 1, "invoice: denied for these arguments by rule 2"),
        ("orders://{number}/invoice", 0, "invoice: depends on the arguments."),
        ("shop://logo", 1, "denied by the default, deny. The resource is hidden from this caller."),
        ("prompt:complain", 0, "local uses prompt:complain: allowed by rule 1"),
        ("thank", 1, "denied by the default, deny. The prompt is hidden from this caller."),
        ("tool:find_order", 0, "local calls find_order: allowed by rule 1"),
    ],
)
def test_a_resource_or_prompt_is_explained_by_its_name(
    features: CommandLine, name: str, code: int, text: str
) -> None:
    done = features.run("explain", name)
    assert (done.exit_code, done.stderr) == (code, "")
    assert text in done.stdout.splitlines()[0]
