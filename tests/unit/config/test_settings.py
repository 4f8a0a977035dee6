"""The values of a policy: valid and invalid fields, and their error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.config.settings import Rate
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit, Auth, Limit, OAuth, Policy, Rule, Telemetry

ISSUER = "https://login.example.com"


def refuse(make: Any, *given: Any, **more: Any) -> tuple[str | None, str]:
    """Return the key and the message of the error."""
    with pytest.raises(ConfigurationError) as caught:
        make(*given, **more)
    return caught.value.key, caught.value.message


# --- rates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count", "period_s"),
    [
        ("60/min", 60, 60.0),
        ("5/s", 5, 1.0),
        ("100/10min", 100, 600.0),
        (" 3 / 2 h ", 3, 7200.0),
        ("1/24hour", 1, 86400.0),
        ("7/second", 7, 1.0),
        ("7/sec", 7, 1.0),
        ("7/m", 7, 60.0),
        ("7/minute", 7, 60.0),
        ("1000000000/s", 1_000_000_000, 1.0),
    ],
)
def test_valid_rates(text: str, count: int, period_s: float) -> None:
    assert Rate.parse(text) == Rate(count, period_s)
    assert Rate.parse(Rate(count, period_s)) == Rate(count, period_s)


@pytest.mark.parametrize(
    "text", ["", "60", "60/", "/min", "-1/s", "1.5/s", "60/day", "60/MIN", "60 per min", 60, None, True]
)
def test_invalid_rates(text: Any) -> None:
    with pytest.raises(ValueError, match="must be a rate such as '60/min' or '5/s', got"):
        Rate.parse(text)


@pytest.mark.parametrize("text", ["0/s", "1000000001/s", "1/0s", "1/25h", "1/86401s"])
def test_rates_out_of_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="must be at least 1 in at most a day, got"):
        Rate.parse(text)


def test_a_rate_as_text() -> None:
    assert str(Rate.parse("60/min")) == "60 in 60 s"


# --- rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["allow", "deny", "confirm"])
def test_a_rule_has_one_effect(effect: Any) -> None:
    rule = Rule(**{effect: ["a", "b*"]})
    assert (rule.effect, rule.tools) == (effect, ("a", "b*"))
    assert (rule.who, rule.when, rule.because, rule.name) == ((), {}, None, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "none"), ({"allow": ["a"], "deny": ["b"]}, "allow and deny"), ({"allow": []}, "none")],
)
def test_a_rule_with_no_effect_or_two_is_invalid(given: Any, said: str) -> None:
    assert refuse(Rule, **given) == (None, f"a rule has exactly one of allow, deny and confirm, got {said}")


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"deny": "a"}, "deny", "must be a list of strings, got 'a'"),
        ({"deny": [5]}, "deny", "must be a list of non-empty strings, but one is 5"),
        ({"deny": ["a", " "]}, "deny", "must be a list of non-empty strings, but one is ' '"),
        ({"deny": ["a"], "who": "key:ana"}, "who", "must be a list of strings, got 'key:ana'"),
        ({"deny": ["a"], "because": ""}, "because", "must be a non-empty string, got ''"),
        ({"deny": ["a"], "because": 5}, "because", "must be a non-empty string, got 5"),
        ({"deny": ["a"], "name": " "}, "name", "must be a non-empty string, got ' '"),
        ({"deny": ["a"], "when": 5}, "when", "must be a table, got 5"),
    ],
)
def test_invalid_rules(given: Any, key: str, said: str) -> None:
    assert refuse(Rule, **given) == (key, said)


# --- limits ------------------------------------------------------------------------------------------


def test_the_rate_of_a_limit_is_parsed() -> None:
    limit = Limit(rate="60/min")
    assert limit.rate == Rate(60, 60.0)
    assert (limit.tools, limit.who, limit.per) == (("*",), (), "principal")
    assert Limit(rate="5/s", per="principal+tool").per == "principal+tool"


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({}, None, "a limit needs at least one of rate, concurrency, daily, timeout_s, max_"),
        ({"per": "all"}, None, "a limit needs at least one of rate"),
        ({"daily": 1, "tools": []}, "tools", "must name at least one tool"),
        ({"daily": 1, "tools": "a"}, "tools", "must be a list of strings, got 'a'"),
        ({"daily": 1, "per": "user"}, "per", "must be one of all, principal, tool, tag, or several"),
        ({"daily": 1, "per": "tool+"}, "per", "must be one of all, principal, tool, tag, or several"),
        ({"daily": 1, "per": 5}, "per", "must be one of all"),
        ({"rate": "often"}, "rate", "must be a rate such as"),
        ({"daily": 1, "burst": 5}, "burst", "burst requires rate"),
        ({"concurrency": 0}, "concurrency", "must be from 1 to 1000000000, got 0"),
        ({"concurrency": 1.5}, "concurrency", "must be an integer, got 1.5"),
        ({"concurrency": True}, "concurrency", "must be an integer, got true"),
        ({"daily": 0}, "daily", "must be from 1 to"),
        ({"rate": "1/s", "burst": 0}, "burst", "must be from 1 to"),
        ({"max_arguments_bytes": 0}, "max_arguments_bytes", "must be from 1 to"),
        ({"max_result_bytes": "1"}, "max_result_bytes", "must be an integer, got '1'"),
        ({"timeout_s": 0}, "timeout_s", "must be from 0.001 to 3600, got 0"),
        ({"timeout_s": "5"}, "timeout_s", "must be a number, got '5'"),
        ({"daily": 1, "name": ""}, "name", "must be a non-empty string"),
    ],
)
def test_invalid_limits(given: Any, key: str | None, said: str) -> None:
    found = refuse(Limit, **given)
    assert found[0] == key
    assert found[1].startswith(said)


@pytest.mark.parametrize(
    "given",
    [
        {"rate": "1/s", "burst": 1},
        {"concurrency": 1},
        {"concurrency": 1_000_000_000},
        {"timeout_s": 0.001},
        {"timeout_s": 3600},
        {"max_arguments_bytes": 1},
        {"max_result_bytes": 1},
        {"daily": 1},
    ],
)
def test_each_amount_alone_is_a_limit(given: Any) -> None:
    limit = Limit(**given)
    assert all(getattr(limit, key) is not None for key in given)


# --- auth --------------------------------------------------------------------------------------------


def test_keys_become_a_path_and_rates_are_parsed() -> None:
    auth = Auth(keys="k.json", requests="5/s")
    assert (auth.keys, auth.requests, auth.max_failures) == (Path("k.json"), Rate(5, 1.0), Rate(30, 60.0))
    assert (auth.optional, auth.oauth) == (False, ())


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({}, None, "needs keys or an authorization server"),
        ({"keys": "k", "optional": "no"}, "optional", "must be true or false, got 'no'"),
        ({"keys": "k", "requests": 5}, "requests", "must be a rate such as"),
        ({"keys": "k", "max_failures": "0/s"}, "max_failures", "must be at least 1"),
        ({"oauth": [OAuth(issuer=ISSUER)] * 2}, "oauth[2].label", "two authorization servers have the label"),
    ],
)
def test_invalid_auth(given: Any, key: str | None, said: str) -> None:
    found = refuse(Auth, **given)
    assert found[0] == key
    assert found[1].startswith(said)


@pytest.mark.parametrize(
    "issuer", [ISSUER, f"{ISSUER}/t/1", "http://127.0.0.1:9/x", "http://localhost", "http://[::1]:80"]
)
def test_valid_issuers(issuer: str) -> None:
    assert OAuth(issuer=issuer).issuer == issuer


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"issuer": "http://login.example.com"}, "issuer"),
        ({"issuer": "http://127.0.0.1@evil.example"}, "issuer"),
        ({"issuer": "http://localhost.evil.example"}, "issuer"),
        ({"issuer": f"{ISSUER}?a=b"}, "issuer"),
        ({"issuer": f"{ISSUER}#a"}, "issuer"),
        ({"issuer": 5}, "issuer"),
        ({"issuer": ISSUER, "resource": "tools"}, "resource"),
        ({"issuer": ISSUER, "jwks_uri": "file:///keys"}, "jwks_uri"),
        ({"issuer": ISSUER, "label": "Big"}, "label"),
        ({"issuer": ISSUER, "label": "key"}, "label"),
        ({"issuer": ISSUER, "label": "local"}, "label"),
        ({"issuer": ISSUER, "label": "anonymous"}, "label"),
        ({"issuer": ISSUER, "label": "role"}, "label"),
        ({"issuer": ISSUER, "scopes": "a"}, "scopes"),
        ({"issuer": ISSUER, "algorithms": ["none"]}, "algorithms"),
        ({"issuer": ISSUER, "algorithms": ["HS256"]}, "algorithms"),
        ({"issuer": ISSUER, "algorithms": ["XX256"]}, "algorithms"),
        ({"issuer": ISSUER, "algorithms": []}, "algorithms"),
        ({"issuer": ISSUER, "role_claim": ""}, "role_claim"),
        ({"issuer": ISSUER, "leeway_s": 301}, "leeway_s"),
        ({"issuer": ISSUER, "leeway_s": -1}, "leeway_s"),
    ],
)
def test_invalid_authorization_servers(given: Any, key: str) -> None:
    assert refuse(OAuth, **given)[0] == key


# --- audit and telemetry -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"values": "a"}, "values"),
        ({"redact": [""]}, "redact"),
        ({"wait_s": 0}, "wait_s"),
        ({"wait_s": 61}, "wait_s"),
        ({"sync": 1}, "sync"),
        ({"keep_days": 0}, "keep_days"),
        ({"keep_days": 36_501}, "keep_days"),
        ({"keep_records": 999}, "keep_records"),
        ({"keep_records": True}, "keep_records"),
    ],
)
def test_invalid_audit(given: Any, key: str) -> None:
    assert refuse(Audit, "audit.db", **given)[0] == key


def test_files_of_an_audit_become_paths() -> None:
    audit = Audit("a.db", key_file="k", checkpoints="c", wait_s=0.01, keep_records=1000, keep_days=1)
    assert (audit.file, audit.key_file, audit.checkpoints) == (Path("a.db"), Path("k"), Path("c"))
    assert Audit("a.db").key_file is None


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"prometheus": 1}, "prometheus"),
        ({"opentelemetry": "yes"}, "opentelemetry"),
        ({"prometheus": True, "metrics_open": 1}, "metrics_open"),
        ({"metrics_open": True}, "metrics_open"),
        ({"metrics_path": "metrics"}, "metrics_path"),
        ({"metrics_path": "/a?b"}, "metrics_path"),
        ({"metrics_path": 5}, "metrics_path"),
    ],
)
def test_invalid_telemetry(given: Any, key: str) -> None:
    assert refuse(Telemetry, **given)[0] == key


# --- policy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "rules", "denies"),
    [
        (None, [], False),
        (None, [Rule(deny=["a"])], False),
        (None, [Rule(confirm=["a"])], False),
        (None, [Rule(deny=["a"]), Rule(allow=["b"])], True),
        ("deny", [], True),
        ("deny", [Rule(allow=["a"])], True),
        ("allow", [Rule(deny=["a"])], False),
    ],
)
def test_an_allow_rule_makes_deny_the_default(default: Any, rules: Any, denies: bool) -> None:
    assert Policy(default=default, rules=rules).denies_by_default is denies


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"default": "maybe"}, "default", "must be one of allow, deny, got 'maybe'"),
        (
            {"default": "allow", "rules": [Rule(deny=["a"]), Rule(allow=["a"])]},
            "rules[2]",
            "has no effect: the default is to allow",
        ),
        ({"roles": []}, "roles", "must be a table, got []"),
        ({"roles": {"boss": "key:ana"}}, "roles.boss", "must be a list of strings, got 'key:ana'"),
        ({"scopes": {"a:b": [5]}}, "scopes.a:b", "must be a list of non-empty strings, but one is 5"),
    ],
)
def test_invalid_policies(given: Any, key: str, said: str) -> None:
    assert refuse(Policy, **given) == (key, said)


def test_lists_and_mappings_are_copied() -> None:
    rules, roles = [Rule(deny=["a"])], {"boss": ["key:ana"]}
    policy = Policy(rules=rules, roles=roles)
    rules.clear()
    roles.clear()
    assert (len(policy.rules), policy.roles) == (1, {"boss": ("key:ana",)})


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("rules[2].when.amount", 9),
        ("rules[2].when.amount.at_most", 9),
        ("rules[2].deny", 7),
        ("rules[2]", 7),
        ("rules[3].deny", 5),
        ("limits[1].rate", None),
    ],
)
def test_an_error_names_the_line_of_the_nearest_key(key: str, line: int | None) -> None:
    policy = Policy(file="toolcrib.toml", lines={"rules": 5, "rules[2]": 7, "rules[2].when.amount": 9})
    error = policy.error_at(key, "is wrong", "mend it")
    assert (error.file, error.key, error.line, error.hint) == ("toolcrib.toml", key, line, "mend it")


@pytest.mark.parametrize(
    ("make", "given", "keys"),
    [
        (Rule, {"deny": "a", "who": 5, "name": "", "when": 5}, ["deny", "who", "when", "name"]),
        (Rule, {"who": 5}, ["who"]),
        (Limit, {"rate": "x", "daily": 0, "per": "x"}, ["per", "rate", "daily"]),
        (Limit, {"burst": 5}, ["burst", None]),
        (OAuth, {"issuer": ISSUER, "algorithms": ["none", "x"]}, ["algorithms", "algorithms"]),
        (Auth, {"max_failures": "x", "requests": "y"}, ["max_failures", "requests"]),
        (Audit, {"file": "a", "values": "x", "sync": 1, "wait_s": 0}, ["values", "wait_s", "sync"]),
        (Telemetry, {"prometheus": 1, "metrics_path": "x"}, ["prometheus", "metrics_path"]),
        (
            Policy,
            {"default": "x", "local_scopes": 5, "roles": 5, "scopes": {"a": 5, "b": ["c"], "d": "e"}},
            ["default", "roles", "scopes.a", "scopes.d", "local_scopes"],
        ),
    ],
)
def test_all_problems_are_reported_together(make: Any, given: Any, keys: list[str | None]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(**given)
    assert [error.key for error in (caught.value, *caught.value.others)] == keys
