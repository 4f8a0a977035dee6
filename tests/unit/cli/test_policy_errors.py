"""Invalid policies, as `toolcrib check` and `toolcrib serve` report them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.cli.load import apply_policy, find_unused_policy, first_error
from toolcrib.cli.options import CommandError
from toolcrib.cli.serving import check_workers_policy
from toolcrib.config import Config
from toolcrib.policy import Limit, Policy, Rule

from .conftest import ADD, CommandLine


def test_check_reports_all_problems_of_a_policy_in_code(cli: CommandLine) -> None:
    rules = 'rules=[Rule(deny=["re:("]), Rule(deny=["add"], when={"a": {"at_mots": 5}})]'
    cli.write(
        "shop.py",
        f"from toolcrib import MCPServer\nfrom toolcrib.policy import Policy, Rule\n\n"
        f"server = MCPServer(policy=Policy({rules}))\n",
    )
    done = cli.run("check", "shop.py")
    assert done.exit_code == 1
    assert "rules[1].deny: selector 're:(' is not a valid pattern" in done.stdout
    assert "rules[2].when.a.at_mots: unknown operator" in done.stdout


HEAD = '[server]\ntargets = ["tools.py"]\n'
WRONG = {
    # what is written below HEAD: what is said of it, behind "toolcrib.toml:"
    '[policy]\nstroe = "x.db"\n': "4: policy.stroe: unknown key",
    '[[rules]]\nwho = ["local"]\n': "3: rules[1]: a rule has exactly one of allow",
    '[[rules]]\nallow = ["add"]\ndeny = ["add"]\n': "3: rules[1]: a rule has exactly one of allow",
    '[[rules]]\ndeny = "add"\n': "4: rules[1].deny: must be a list of strings, got 'add'",
    '[[rules]]\ndeny = ["re:("]\n': "4: rules[1].deny: selector 're:(' is not a valid pattern",
    '[[rules]]\ndeny = ["tga:x"]\n': "4: rules[1].deny: unknown kind of selector: 'tga:x'",
    '[[rules]]\ndeny = ["hint:evil"]\n': "4: rules[1].deny: unknown hint in selector 'hint:evil'",
    '[[rules]]\ndeny = ["add"]\n\n[[rules]]\ndeny = ["refund"]\n': (
        "7: rules[2].deny: 'refund' matches no tool"
    ),
    '[[rules]]\ndeny = ["add"]\nwho = ["role:boss"]\n': "5: rules[1].who: unknown role 'boss'",
    '[[rules]]\ndeny = ["add"]\nwhen = { a = { bigger = 3 } }\n': "5: rules[1].when.a.bigger: unknown",
    '[[rules]]\ndeny = ["add"]\n[rules.when]\na = { bigger = 3 }\n': (
        "6: rules[1].when.a.bigger: unknown operator"
    ),
    '[[rules]]\ndeny = ["add"]\nwhen = { z = { at_most = 3 } }\n': (
        "5: rules[1].when.z: 'add' has no such argument"
    ),
    '[policy]\ndefault = "allow"\n[[rules]]\nallow = ["add"]\n': "5: rules[1]: has no effect",
    '[scopes]\n"x:y" = ["refund"]\n': "4: scopes.x:y: 'refund' matches no tool",
    '[[limits]]\nrate = "60 per min"\n': "4: limits[1].rate: must be a rate such as '60/min'",
    "[[limits]]\nconcurrency = 0\n": "4: limits[1].concurrency: must be from 1 to 1000000000, got 0",
    '[[limits]]\nper = "tool"\n': "3: limits[1]: a limit needs",
    '[[limits]]\ndaily = 1\ntools = ["refund"]\n': "5: limits[1].tools: 'refund' matches no tool",
    '[[rules]]\ndeny = ["add"]\nwho = ["ana"]\n': "5: rules[1].who: no principal can be named 'ana'",
    '[roles]\nboss = ["ana"]\n[[rules]]\ndeny = ["add"]\nwho = ["role:boss"]\n': (
        "4: roles.boss: no principal can be named 'ana'"
    ),
    '[[limits]]\ndaily = 1\nwho = ["role:boss"]\n': "5: limits[1].who: unknown role 'boss'",
    "[auth]\n": "3: auth: needs keys or an authorization server",
    '[auth]\nkeys = "k.json"\noptional = "no"\n': "5: auth.optional: must be true or false, got 'no'",
    '[[auth.oauth]]\nissuer = "http://x.example"\n': "4: auth.oauth[1].issuer: must be an https:// URL",
    '[audit]\nfile = "a.db"\nredact = ["re:("]\n': "5: audit.redact: invalid regular expression '('",
    '[audit]\nfile = "a.db"\nkeep_records = 5\n': "5: audit.keep_records: must be from 1000 to",
    "[telemetry]\nprometheus = 1\n": "4: telemetry.prometheus: must be true or false, got 1",
}


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("command", [("check",), ("serve", "--stdio"), ("serve", "--port", "0")])
def test_an_invalid_policy_is_reported_with_its_place_and_not_served(
    cli: CommandLine, text: str, command: tuple[str, ...]
) -> None:
    cli.write("tools.py", ADD)
    (cli.folder / "toolcrib.toml").write_text(HEAD + text)
    done = cli.run(*command, stdin="")
    place, _, said = WRONG[text].partition(": ")
    told = done.stderr + done.stdout
    assert f"toolcrib.toml:{place}: " in told
    assert said in told
    assert done.exit_code in (1, 2)
    if command[0] == "serve":
        assert done.stdout == ""
        assert f"error: toolcrib.toml:{WRONG[text]}" in done.stderr
    assert "Traceback" not in told


def test_check_warns_of_a_key_file_that_cannot_be_read(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    (cli.folder / "toolcrib.toml").write_text(HEAD + '[auth]\nkeys = "k.json"\n')
    done = cli.run("check", "--json")
    assert done.exit_code == 0  # it need not be on this machine
    [finding] = [item for item in json.loads(done.stdout)["findings"] if item["level"] == "warning"]
    assert finding["message"].startswith("auth.keys: ")
    assert finding["message"].endswith("k.json: no such file: serve will not start")
    assert (finding["file"], finding["line"]) == ("toolcrib.toml", 4)


def test_a_good_policy_is_no_finding(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write(
        "toolcrib.toml", HEAD + '[[rules]]\ndeny = ["add"]\nwho = ["key:x"]\n[[limits]]\nrate = "5/s"\n'
    )
    done = cli.run("check")
    assert done.exit_code == 0
    assert "error" not in done.stdout


@pytest.mark.parametrize("file", ["policy.toml", "nowhere.toml"])
def test_nothing_is_served_without_a_policy_that_cannot_be_read(cli: CommandLine, file: str) -> None:
    cli.write("tools.py", ADD)
    cli.write("policy.toml", '[[rules]]\ndney = ["add"]\n')
    for targets in ((file, "tools.py"), ("tools.py", file)):
        done = cli.run("serve", "--stdio", *targets, stdin="")
        assert done.exit_code == 2
        assert file in done.stderr


def test_two_policies_are_an_error(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    for name in ("a.toml", "b.toml"):
        cli.write(name, HEAD + '[[limits]]\nrate = "5/s"\n')
    done = cli.run("serve", "--stdio", "a.toml", "b.toml", stdin="")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: More than one policy: a.toml, b.toml\nhint: keep the policy sections in one file\n"
    )


def test_a_policy_in_the_file_and_one_in_the_code_are_an_error() -> None:
    server = MCPServer("shop", policy=Policy())
    config = Config(policy=Policy())
    with pytest.raises(CommandError, match=r"Both .* and the server's code have a policy"):
        apply_policy(server, [config])


def test_the_first_unused_part_is_reported_with_the_number_of_others() -> None:
    policy = Policy(
        rules=[Rule(deny=["a"]), Rule(deny=["b"]), Rule(deny=["c"])],
        file="toolcrib.toml",
        lines={"rules[1].deny": 4},
    )
    error = first_error(find_unused_policy(MCPServer("shop", policy=policy)))
    assert error.message.startswith("toolcrib.toml:4: rules[1].deny: ")
    assert error.message.endswith(" (and 2 more: see `toolcrib check`)")


def test_a_policy_in_the_folder_that_is_not_used_is_reported(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", HEAD + '[[limits]]\nrate = "5/s"\n')
    said = "the policy of toolcrib.toml is not used, because other targets are named"
    assert said in cli.run("serve", "--stdio", "tools.py", stdin="").stderr
    assert said not in cli.run("serve", "--stdio", stdin="").stderr
    assert said not in cli.run("serve", "--stdio", "toolcrib.toml", stdin="").stderr
    cli.write("toolcrib.toml", HEAD)
    assert said not in cli.run("serve", "--stdio", "tools.py", stdin="").stderr
    cli.write("toolcrib.toml", HEAD + "[[limits]]\nrate = 5\n")
    assert said not in cli.run("serve", "--stdio", "tools.py", stdin="").stderr


# --- several processes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"limits": [Limit(timeout_s=5), Limit(rate="5/s")]}, "limits[2]"),
        ({"limits": [Limit(concurrency=5)]}, "limits[1]"),
        ({"limits": [Limit(daily=5)]}, "limits[1]"),
        ({"rules": [Rule(deny=["a"]), Rule(confirm=["a"])]}, "rules[2]"),
        ({"limits": [Limit(daily=5)], "rules": [Rule(confirm=["a"])]}, "limits[1]"),
    ],
)
def test_what_is_counted_for_all_needs_a_place_to_count_in(given: Any, key: str) -> None:
    with pytest.raises(CommandError) as caught:
        check_workers_policy(Policy(**given), 3)
    assert caught.value.message.startswith(f"{key}: 3 workers need a shared store: ")
    assert caught.value.hint == 'set a file in the policy: store="policy.db"; or use one process'
    check_workers_policy(Policy(**given), 1)
    check_workers_policy(Policy(**given, store="policy.db"), 3)


def test_what_holds_for_each_call_needs_none() -> None:
    limits = [Limit(timeout_s=5), Limit(max_arguments_bytes=5), Limit(max_result_bytes=5)]
    check_workers_policy(Policy(limits=limits, rules=[Rule(deny=["a"])]), 3)


@pytest.mark.parametrize("asks", [("--workers", "2"), ()])
def test_workers_without_a_common_store_are_refused_before_anything_is_loaded(
    cli: CommandLine, asks: tuple[str, ...]
) -> None:
    cli.write("tools.py", "raise SystemExit('loaded')")
    wish = "" if asks else "[http]\nworkers = 2\n"
    cli.write("toolcrib.toml", HEAD + wish + '[[limits]]\nrate = "5/s"\n')
    done = cli.run("serve", "--port", "0", *asks)
    assert done.exit_code == 2
    line = 3 if asks else 5
    assert done.stderr == (
        f"error: toolcrib.toml:{line}: limits[1]: 2 workers need a shared store: "
        "this limit would allow 2 times as much\n"
        'hint: set a file under [policy]: store = "policy.db"; or use one process\n'
    )


def test_check_reports_every_problem_of_a_policy(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    (cli.folder / "toolcrib.toml").write_text(
        HEAD
        + """[[rules]]
deny = ["re:(", "tga:x"]
when = { a = { bigger = 3, at_most = "x" }, "b." = 3 }
who = ["role:boss", "ana"]

[[rules]]
allow = ["re:["]

[[limits]]
daily = 1
tools = ["re:("]
who = ["role:chief"]

[scopes]
"x:y" = ["re:("]
"y:z" = ["re:("]

[audit]
file = "a.db"
redact = ["re:(", "re:["]
"""
    )
    found = json.loads(cli.run("check", "--json").stdout)["findings"]
    told = [(item["line"], item["message"].partition(": ")[0]) for item in found if item["level"] == "error"]
    assert told == [
        (4, "rules[1].deny"),
        (4, "rules[1].deny"),
        (5, "rules[1].when.a.bigger"),
        (5, "rules[1].when.a.at_most"),
        (5, "rules[1].when.b."),
        (6, "rules[1].who"),
        (6, "rules[1].who"),
        (9, "rules[2].allow"),
        (13, "limits[1].tools"),
        (14, "limits[1].who"),
        (17, "scopes.x:y"),
        (18, "scopes.y:z"),
        (22, "audit.redact"),
        (22, "audit.redact"),
    ]
    assert {item["file"] for item in found if item["level"] == "error"} == {"toolcrib.toml"}
    done = cli.run("serve", "--stdio", stdin="")
    assert "(and 13 more: see `toolcrib check`)" in done.stderr
    assert done.stderr.count("error") == 1


def test_check_reports_every_invalid_setting(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    text = """[server]
page_size = "x"
colour = 3
shape = 4
[http]
port = 70000
path = "mcp"
[policy]
stroe = "x"
[[rules]]
dney = ["add"]
[[rules]]
deny = "add"
[[limits]]
rate = "often"
[telemetry]
prometheus = 1
[auth]
optional = "no"
[[auth.oauth]]
issuer = "http://x.example"
[[auth.oauth]]
isuer = "https://x.example"
[audit]
redact = []
"""
    (cli.folder / "toolcrib.toml").write_text(f"lint = 3\n{text}")
    found = json.loads(cli.run("check", "--json").stdout)["findings"]
    assert {(item["line"], item["message"].partition(": ")[0]) for item in found} == {
        (1, "lint"),
        (3, "server.page_size"),
        (4, "server.colour"),
        (5, "server.shape"),
        (7, "http.port"),
        (8, "http.path"),
        (10, "policy.stroe"),
        (12, "rules[1].dney"),
        (14, "rules[2].deny"),
        (16, "limits[1].rate"),
        (18, "telemetry.prometheus"),
        (20, "auth.optional"),
        (22, "auth.oauth[1].issuer"),
        (24, "auth.oauth[2].isuer"),
        (25, "audit"),
    }


def test_the_code_and_a_command_may_use_the_policy_of_one_file(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", '[server]\ntargets = ["shop.py"]\n[[rules]]\nallow = ["find"]\n')
    cli.write(
        "shop.py",
        "from pathlib import Path\n"
        "from toolcrib import MCPServer\n"
        'server = MCPServer("shop", policy=Path(__file__).with_name("toolcrib.toml"))\n'
        'server.tool("find", "Find.")(lambda: 1)\n'
        'server.tool("wipe", "Wipe.")(lambda: 1)\n',
    )
    for words in (("serve", "--stdio"), ("serve", "--stdio", "shop.py")):
        assert "policy" not in cli.run(*words, stdin="").stderr
    for words in ((), ("-t", "shop.py")):
        done = cli.run("explain", "wipe", *words)
        assert (
            "denied by the default, deny" in done.stdout
            or "denied by rule 1 (toolcrib.toml:3)" in done.stdout
        )
