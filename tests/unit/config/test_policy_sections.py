"""The policy sections of `toolcrib.toml`: the same values as in Python, errors with file, line and key."""

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


def test_a_file_and_python_make_equal_policies(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy is not None
    assert policy.file == str(tmp_path / "toolcrib.toml")
    in_code = Policy(
        default="deny",
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


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path) -> None:
    policy = read(
        tmp_path,
        """
        [audit]
        file = "/var/audit.db"
        key_file = "../key"
        checkpoints = "seals"
        """,
    )
    assert policy is not None
    assert policy.audit is not None
    assert policy.audit.file == Path("/var/audit.db")
    assert policy.audit.checkpoints == tmp_path / "seals"
    assert policy.audit.key_file == tmp_path / ".." / "key"


def test_a_file_without_such_sections_has_no_policy(tmp_path: Path) -> None:
    assert read(tmp_path, '[server]\nname = "shop"\n') is None


@pytest.mark.parametrize("section", ["policy", "roles", "scopes", "telemetry"])
def test_an_empty_section_is_a_policy_without_limits(tmp_path: Path, section: str) -> None:
    policy = read(tmp_path, f"[{section}]\n")
    assert policy is not None
    assert not policy.denies_by_default


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[policy]\nstroe = "x"\n', "2: policy.stroe: unknown key"),
        ('[policy]\ndefault = "x"\n', "2: policy.default: must be one of allow, deny, got 'x'"),
        ("policy = 5\n", "1: policy: must be a table, got 5"),
        ("auth = 5\n", "1: auth: must be a table, got 5"),
        ("roles = []\n", "1: roles: must be a table, got []"),
        ("audit = true\n", "1: audit: must be a table, got true"),
        ("telemetry = 1.5\n", "1: telemetry: must be a table, got 1.5"),
        ("rules = 5\n", "1: rules: must be a list of tables"),
        ("rules = [5]\n", "1: rules: must be a list of tables"),
        ("[limits]\ndaily = 5\n", "1: limits: must be a list of tables"),
        (
            '[[rules]]\ndeny = ["a"]\n[[rules]]\nwho = []\n',
            "3: rules[2]: a rule has exactly one of",
        ),
        ('[[rules]]\ndeny = ["a"]\nwehn = {}\n', "3: rules[1].wehn: unknown key"),
        ('[[rules]]\nwho = ["a"]\ndeny = 5\n', "3: rules[1].deny: must be a list of strings, got 5"),
        ("[auth]\noptional = true\n", "1: auth: needs keys or an authorization server"),
        ('[auth]\nkeys = "k"\noptional = 1\n', "3: auth.optional: must be true or false, got 1"),
        ("[auth]\nkeys = []\n", "2: auth.keys: must be a non-empty string, got []"),
        ("[[auth.oauth]]\nscopes = []\n", "1: auth.oauth[1]: issuer is required"),
        (
            '[[auth.oauth]]\nissuer = "https://a.example"\n[[auth.oauth]]\nissuer = "https://b.example"\n',
            "3: auth.oauth[2].label: two authorization servers have the label 'oauth'",
        ),
        ("[audit]\nsync = true\n", "1: audit: file is required"),
        ('[audit]\nfile = "a"\nlines = {}\n', "3: audit.lines: unknown key"),
        ('[roles]\nboss = "x"\n', "2: roles.boss: must be a list of strings, got 'x'"),
        ('[policy]\ndefault = "allow"\n[[rules]]\nallow = ["a"]\n', "3: rules[1]: has no effect"),
    ],
)
def test_an_error_names_file_line_and_key(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'toolcrib.toml'}:{where}")


def test_a_misspelt_key_is_reported_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, '[[rules]]\ndney = ["a"]\n')
    assert caught.value.hint == "did you mean 'deny'?"


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ('[server]\nname = "x"\n[[policy.rules]]\ndeny = ["a"]\n', 3, "[[rules]]"),
        ("[policy.roles]\nboss = []\n", 1, "[roles]"),
        ('[server]\naudit = {file = "a"}\n', 2, "[audit]"),
    ],
)
def test_a_table_below_another_is_reported_with_its_own_place(
    tmp_path: Path, text: str, line: int, hint: str
) -> None:
    with pytest.raises(ConfigurationError, match="unknown key") as caught:
        read(tmp_path, text)
    assert caught.value.line == line
    assert (caught.value.hint or "").endswith(f": write {hint}")


def test_a_missing_file_of_the_audit_log_is_reported_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, "[audit]\nsync = true\n")
    assert caught.value.hint == 'write file = "audit.db"'


def problems_of(folder: Path, text: str) -> list[str]:
    """Return the line and key of every problem of a file."""
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text)
    return [f"{error.line} {error.key}" for error in (caught.value, *caught.value.others)]


def test_all_invalid_fields_are_reported_in_the_order_of_lines(tmp_path: Path) -> None:
    text = """\
        [auth]
        max_failures = "often"
        requests = "rarely"
        keys = 5
        [[auth.oauth]]
        leeway_s = "x"
        [[auth.oauth]]
        issuer = "ftp://x.example"
        label = "X"
        [[limits]]
        daily = 0
        rate = "x"
        [[limits]]
        nmae = "x"
        timeout_s = "5"
        [policy]
        default = "maybe"
        stroe = "x"
        local_scopes = "x"
        [roles]
        q = "x"
        r = [3]
        [scopes]
        "a:b" = "add"
        [[rules]]
        deny = "add"
        who = "x"
        [audit]
        key_file = 3
        wait_s = "x"
        sync = 3
        [telemetry]
        prometheus = "x"
        metrics_path = "y"
        """
    assert problems_of(tmp_path, text) == [
        *("2 auth.max_failures", "3 auth.requests", "4 auth.keys", "5 auth.oauth[1]"),
        *("6 auth.oauth[1].leeway_s", "8 auth.oauth[2].issuer", "9 auth.oauth[2].label"),
        *("11 limits[1].daily", "12 limits[1].rate", "14 limits[2].nmae", "15 limits[2].timeout_s"),
        *("17 policy.default", "18 policy.stroe", "19 policy.local_scopes"),
        *("21 roles.q", "22 roles.r", "24 scopes.a:b", "26 rules[1].deny", "27 rules[1].who"),
        *("28 audit", "29 audit.key_file", "30 audit.wait_s", "31 audit.sync"),
        *("33 telemetry.prometheus", "34 telemetry.metrics_path"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[rules]]\ndney = ["a"]\n', "2 rules[1].dney"),
        ("[[limits]]\ndayly = 5\n", "2 limits[1].dayly"),
        ('[auth]\nkyes = "k"\n', "2 auth.kyes"),
        ("[auth]\nkeys = 5\n", "2 auth.keys"),
        ("[auth]\noauth = 5\n", "2 auth.oauth"),
        ('[[auth.oauth]]\nisuer = "https://a.example"\n', "2 auth.oauth[1].isuer"),
        ('[audit]\nflie = "a.db"\n', "2 audit.flie"),
        ("[audit]\nfile = 5\n", "2 audit.file"),
        ('[[rules]]\ndeny = ""\n', "2 rules[1].deny"),
        ("[telemetry]\nmetrics_open = 1\n", "2 telemetry.metrics_open"),
        ("rules = [{ deny = 5 }]\n", "1 rules[1].deny"),
    ],
)
def test_consequences_of_a_problem_are_not_reported(tmp_path: Path, text: str, problem: str) -> None:
    assert problems_of(tmp_path, text) == [problem]


def test_conflicts_are_reported_once_all_fields_are_valid(tmp_path: Path) -> None:
    text = """\
        [policy]
        default = "allow"
        [[rules]]
        deny = 5
        [[rules]]
        allow = ["a"]
        [auth]
        [[auth.oauth]]
        issuer = 5
        [[auth.oauth]]
        issuer = "https://a.example"
        [[auth.oauth]]
        issuer = "https://b.example"
        """
    assert problems_of(tmp_path, text) == ["4 rules[1].deny", "9 auth.oauth[1].issuer"]
