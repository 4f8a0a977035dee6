"""Invalid policies, as `toolcrib check` and `toolcrib serve` report them."""

from __future__ import annotations

import json

import pytest

from toolcrib import MCPServer
from toolcrib.cli.load import apply_policy, find_unused_policy, first_error
from toolcrib.cli.options import CommandError
from toolcrib.config import Config
from toolcrib.policy import Policy, Rule

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


def test_a_good_policy_is_not_a_finding(cli: CommandLine) -> None:
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
