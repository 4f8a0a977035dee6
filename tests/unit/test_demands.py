"""The sections of a file that make up a policy: the same values as in code, errors with their place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from toolcrib.config import load_config
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry

WHOLE = """\
[policy]
default = "deny"
store = "policy.db"

[auth]
keys = "keys.json"
requests = "100/s"

[[auth.oauth]]
issuer = "https://login.example.com"
scopes = ["orders:read"]

[[auth.oauth]]
issuer = "https://other.example.com"
label = "partner"

[roles]
support = ["key:ana"]

[scopes]
"orders:write" = ["refund"]

[[rules]]
allow = ["refund"]
who = ["role:support"]
when = { amount = { at_most = 100 } }
because = "No more than a hundred."

[[rules]]
confirm = ["tag:destructive"]
name = "ask"

[[limits]]
rate = "60/min"
per = "principal"

[audit]
file = "logs/audit.db"
values = ["amount"]

[telemetry]
prometheus = true
"""


def read(folder: Path, text: str) -> Policy | None:
    file = folder / "toolcrib.toml"
    file.write_text(dedent(text))
    return load_config(file).policy


def test_a_file_and_code_say_the_same(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy is not None
    assert policy.file == str(tmp_path / "toolcrib.toml")
    in_code = Policy(
        default="deny",
        store=tmp_path / "policy.db",
        auth=Auth(
            keys=tmp_path / "keys.json",
            requests="100/s",
            oauth=[
                OAuth(issuer="https://login.example.com", scopes=["orders:read"]),
                OAuth(issuer="https://other.example.com", label="partner"),
            ],
        ),
        roles={"support": ["key:ana"]},
        scopes={"orders:write": ["refund"]},
        rules=[
            Rule(
                allow=["refund"],
                who=["role:support"],
                when={"amount": {"at_most": 100}},
                because="No more than a hundred.",
            ),
            Rule(confirm=["tag:destructive"], name="ask"),
        ],
        limits=[Limit(rate="60/min", per="principal")],
        audit=Audit(tmp_path / "logs" / "audit.db", values=["amount"]),
        telemetry=Telemetry(prometheus=True),
        file=policy.file,
        lines=policy.lines,
    )
    assert policy == in_code


def test_places_are_seen_from_the_folder_of_the_file_unless_they_are_whole(tmp_path: Path) -> None:
    policy = read(
        tmp_path,
        """
        [audit]
        file = "/var/audit.jsonl"
        key_file = "../key"
        checkpoints = "seals"
        """,
    )
    assert policy is not None
    assert policy.audit is not None
    assert policy.audit.file == Path("/var/audit.jsonl")
    assert policy.audit.checkpoints == tmp_path / "seals"
    assert policy.audit.key_file == tmp_path / ".." / "key"


def test_a_file_without_such_sections_has_no_policy(tmp_path: Path) -> None:
    assert read(tmp_path, '[server]\nname = "shop"\n') is None


@pytest.mark.parametrize("section", ["policy", "roles", "scopes", "telemetry"])
def test_an_empty_section_is_a_policy_that_demands_nothing(tmp_path: Path, section: str) -> None:
    policy = read(tmp_path, f"[{section}]\n")
    assert policy is not None
    assert not policy.denies_by_default


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[policy]\nstroe = "x"\n', "2: policy.stroe: unknown key"),
        ('[policy]\ndefault = "x"\n', "2: policy.default: must be allow or deny, got 'x'"),
        ("[policy]\nstore = 5\n", "2: policy.store: must be a string, got an integer"),
        ("policy = 5\n", "1: policy: must be a table, got an integer"),
        ("auth = 5\n", "1: auth: must be a table, got an integer"),
        ("roles = []\n", "1: roles: must be a table, got a list"),
        ("audit = true\n", "1: audit: must be a table, got a boolean"),
        ("telemetry = 1.5\n", "1: telemetry: must be a table, got a number"),
        ("rules = 5\n", "1: rules: must be a list of tables"),
        ("rules = [5]\n", "1: rules: must be a list of tables"),
        ("[limits]\ndaily = 5\n", "1: limits: must be a list of tables"),
        ('[[rules]]\ndeny = ["a"]\n[[rules]]\nwho = []\n', "3: rules[2]: a rule has one of allow, deny and"),
        ('[[rules]]\ndeny = ["a"]\nwehn = {}\n', "3: rules[1].wehn: unknown key"),
        ('[[rules]]\nwho = ["a"]\ndeny = 5\n', "3: rules[1].deny: must be a list of strings, got 5"),
        ("[auth]\noptional = true\n", "1: auth: names neither keys nor an authorization server"),
        ('[auth]\nkeys = "k"\noptional = 1\n', "3: auth.optional: must be true or false, got 1"),
        ("[auth]\nkeys = []\n", "2: auth.keys: must be a string, got a list"),
        ("[[auth.oauth]]\nscopes = []\n", "1: auth.oauth[1]: needs issuer"),
        (
            '[[auth.oauth]]\nissuer = "https://a.example"\n[[auth.oauth]]\nissuer = "https://b.example"\n',
            "3: auth.oauth[2].label: two authorization servers with one label, 'oauth'",
        ),
        ("[audit]\nsync = true\n", "1: audit: says not where: file is missing"),
        ('[audit]\nfile = "a"\nlines = {}\n', "3: audit.lines: unknown key"),
        ('[roles]\nboss = "x"\n', "2: roles.boss: must be a list of strings, got 'x'"),
        ('[policy]\ndefault = "allow"\n[[rules]]\nallow = ["a"]\n', "3: rules[1]: allows what is allowed"),
    ],
)
def test_whatever_is_wrong_is_told_with_file_line_and_key(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'toolcrib.toml'}:{where}")


def test_a_misspelt_key_is_told_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, '[[rules]]\ndney = ["a"]\n')
    assert caught.value.hint == "did you mean 'deny'?"
