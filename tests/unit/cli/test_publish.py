"""`toolcrib publish`: the server.json of the MCP registry, from the files of a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.publication.project import Report
from toolcrib.cli.publication.registry import SCHEMA_URL, check_document

from .conftest import ADD, CommandLine

PYPROJECT = """
[project]
name = "shop-tools"
version = "1.2.0"
description = "Find and change the orders of a shop"
readme = "README.md"

[project.scripts]
shop-tools = "shop:main"

[project.urls]
Homepage = "https://shop.example.com"
Repository = "https://github.com/ana/shop-tools.git"
"""
README = "# Shop tools\n\n<!-- mcp-name: io.github.ana/shop-tools -->\n"
MINIMAL: dict[str, Any] = {
    "$schema": SCHEMA_URL,
    "name": "io.github.ana/shop-tools",
    "description": "Find and change the orders of a shop",
    "version": "1.2.0",
    "repository": {"url": "https://github.com/ana/shop-tools", "source": "github"},
    "websiteUrl": "https://shop.example.com",
    "packages": [
        {
            "registryType": "pypi",
            "registryBaseUrl": "https://pypi.org",
            "identifier": "shop-tools",
            "version": "1.2.0",
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
        }
    ],
}


@pytest.fixture
def project(cli: CommandLine) -> CommandLine:
    cli.write("pyproject.toml", PYPROJECT)
    cli.write("README.md", README)
    (cli.folder / ".git").mkdir()
    return cli


def written(cli: CommandLine) -> Any:
    return json.loads((cli.folder / "server.json").read_text())


# --- from a project ----------------------------------------------------------------------------------


def test_a_server_json_is_made_of_the_pyproject(project: CommandLine) -> None:
    done = project.run("publish")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    assert "warning" not in done.stderr
    assert written(project) == MINIMAL
    assert (
        "note: server.json written: io.github.ana/shop-tools 1.2.0, PyPI package shop-tools\n" in done.stderr
    )
    again = project.run("publish")
    assert again.stderr == "note: server.json is up to date: io.github.ana/shop-tools 1.2.0\n"


def test_json_prints_the_document_and_writes_only_a_named_file(project: CommandLine) -> None:
    assert project.json("publish", "--json") == MINIMAL
    assert not (project.folder / "server.json").exists()
    assert project.json("publish", "--json", "--to", "other.json") == MINIMAL
    assert json.loads((project.folder / "other.json").read_text()) == MINIMAL


def test_everything_that_is_missing_is_explained_at_once(cli: CommandLine) -> None:
    (cli.folder / ".git").mkdir()
    done = cli.run("publish")
    assert done.exit_code == 1
    assert not (cli.folder / "server.json").exists()
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert errors == [
        "error: No pyproject.toml: which PyPI package has the server?",
        "error: The server has no name for the registry",
        "error: The server has no description",
    ]
    for error in errors:
        assert lines[lines.index(error) + 1].startswith("hint: ")
    assert lines[-1] == "note: server.json not written: 3 problems"


def test_a_package_needs_a_command_of_its_name(project: CommandLine) -> None:
    project.write("pyproject.toml", PYPROJECT.replace("shop-tools = ", "shop = "))
    done = project.run("publish")
    assert done.exit_code == 1
    assert (
        "error: The package has no command 'shop-tools', which `uvx shop-tools` starts; there are shop\n"
        in (done.stderr)
    )
    assert 'add shop-tools = "MODULE:FUNCTION" under [project.scripts]' in done.stderr
    project.write("pyproject.toml", PYPROJECT.replace("shop-tools = ", "Shop_Tools = "))
    assert project.json("publish", "--json")["packages"][0]["identifier"] == "Shop_Tools"


@pytest.mark.parametrize(
    ("table", "file", "text"),
    [
        ('[tool.hatch.version]\npath = "src/shop.py"', "src/shop.py", '__version__: str = "3.1"\n'),
        (
            '[tool.setuptools.dynamic]\nversion = {attr = "shop.__version__"}',
            "shop.py",
            "__version__ = '3.1'\n",
        ),
        (
            '[tool.setuptools.dynamic]\nversion = {attr = "shop.__version__"}',
            "src/shop/__init__.py",
            "__version__ = '3.1'\n",
        ),
        ('[tool.setuptools.dynamic]\nversion = {file = ["VERSION"]}', "VERSION", "3.1\n"),
    ],
)
def test_a_dynamic_version_is_read_where_the_build_reads_it(
    project: CommandLine, table: str, file: str, text: str
) -> None:
    dynamic = PYPROJECT.replace('version = "1.2.0"', 'dynamic = ["version"]')
    project.write("pyproject.toml", f"{dynamic}\n{table}\n")
    assert "error: The version is unknown: it is dynamic" in project.run("publish").stderr
    project.write(file, text)
    document = project.json("publish", "--json")
    assert (document["version"], document["packages"][0]["version"]) == ("3.1", "3.1")


def test_the_version_of_an_installed_package_is_found(project: CommandLine) -> None:
    text = PYPROJECT.replace("shop-tools", "click").replace('version = "1.2.0"', 'dynamic = ["version"]')
    project.write("pyproject.toml", text)
    assert project.json("publish", "--json")["version"][0].isdigit()


def test_options_and_toolcrib_toml_come_before_the_pyproject(project: CommandLine) -> None:
    project.write("tools.py", ADD)
    project.write(
        "toolcrib.toml",
        """
        [server]
        title = "The shop"
        targets = ["tools.py"]
        version = "1.0"

        [http]
        port = 9000
        path = "/shop"

        [publish]
        name = "com.example/shop"
        description = "Orders"

        [[publish.environment]]
        name = "SHOP_REGION"
        description = "Where the shop is"
        required = true
        default = "eu"
        choices = ["eu", "us"]

        [[publish.environment]]
        name = "SHOP_DB"
        format = "filepath"
        """,
    )
    words = ("--secret", "SHOP_TOKEN:Of your shop", "--env", "DEBUG", "--transport", "streamable-http")
    done = project.run("publish", "--json", *words, "--repository", "git+https://gitlab.com/ana/shop")
    document = json.loads(done.stdout)
    assert document["name"] == "com.example/shop"
    assert document["title"] == "The shop"
    assert document["description"] == "Orders"
    assert document["repository"] == {"url": "https://gitlab.com/ana/shop", "source": "gitlab"}
    package = document["packages"][0]
    assert package["transport"] == {"type": "streamable-http", "url": "http://127.0.0.1:9000/shop"}
    assert package["environmentVariables"] == [
        {"name": "DEBUG"},
        {"name": "SHOP_TOKEN", "description": "Of your shop", "isRequired": True, "isSecret": True},
        {
            "name": "SHOP_REGION",
            "description": "Where the shop is",
            "isRequired": True,
            "default": "eu",
            "choices": ["eu", "us"],
        },
        {"name": "SHOP_DB", "format": "filepath"},
    ]
    assert "toolcrib.toml tells clients that the version is 1.0, and pyproject.toml says 1.2.0" in done.stderr
    assert (
        "README.md has no line with 'mcp-name: com.example/shop', but one with io.github.ana/shop-tools"
        in (done.stderr)
    )


def test_words_after_the_dashes_are_arguments_of_the_package(project: CommandLine) -> None:
    document = project.json("publish", "--json", "--", "serve", "--db={db_path}", "--fast")
    assert document["packages"][0]["packageArguments"] == [
        {"type": "positional", "value": "serve"},
        {
            "type": "named",
            "name": "--db",
            "value": "{db_path}",
            "variables": {"db_path": {"isRequired": True}},
        },
        {"type": "positional", "value": "--fast"},
    ]


def test_a_remote_needs_no_package(cli: CommandLine) -> None:
    (cli.folder / ".git").mkdir()
    url = "https://shop.example.com/{tenant}/mcp"
    words = (
        "--remote",
        url,
        "--no-package",
        "--name",
        "com.example/shop",
        "--version",
        "2",
        "--description",
        "D",
    )
    headers = ("--header", "Authorization: Bearer {token}", "--header", "X-Key", "--header", "X-Region: eu")
    document = cli.json("publish", "--json", *words, *headers)
    secret = {"isRequired": True, "isSecret": True}
    assert "packages" not in document
    assert document["remotes"] == [
        {
            "type": "streamable-http",
            "url": url,
            "variables": {"tenant": {"isRequired": True}},
            "headers": [
                {
                    "name": "Authorization",
                    "value": "Bearer {token}",
                    **secret,
                    "variables": {"token": secret},
                },
                {"name": "X-Key", **secret},
                {"name": "X-Region", "value": "eu"},
            ],
        }
    ]


def test_a_server_with_keys_gets_the_header_for_them(project: CommandLine) -> None:
    project.write("tools.py", ADD)
    project.write("toolcrib.toml", '[server]\ntargets = ["tools.py"]\n[auth]\nkeys = "toolcrib.keys.json"\n')
    remote = project.json("publish", "--json", "--remote", "https://shop.example.com/mcp")["remotes"][0]
    assert remote["headers"][0]["value"] == "Bearer {api_key}"
    assert remote["headers"][0]["variables"]["api_key"]["isSecret"] is True


def test_a_secret_in_a_header_is_not_published(project: CommandLine) -> None:
    done = project.run(
        "publish", "--remote", "https://x.example.com/mcp", "--header", "Authorization: Bearer abc"
    )
    assert done.exit_code == 1
    assert "error: The value of the header Authorization would be published" in done.stderr


def test_what_was_added_by_hand_is_kept(project: CommandLine) -> None:
    assert project.run("publish", "--secret", "TOKEN", "--remote", "https://x.example.com/mcp").exit_code == 0
    document = written(project)
    document["icons"] = [{"src": "https://shop.example.com/icon.png"}]
    document["packages"].append(
        {"registryType": "oci", "identifier": "ghcr.io/x/y:1", "transport": {"type": "stdio"}}
    )
    document["packages"][0]["runtimeArguments"] = [{"type": "positional", "value": "--offline"}]
    (project.folder / "server.json").write_text(json.dumps(document))
    project.write("pyproject.toml", PYPROJECT.replace("1.2.0", "1.3.0"))
    assert project.run("publish").exit_code == 0
    new = written(project)
    assert new == json.loads(json.dumps(document).replace("1.2.0", "1.3.0"))


def test_a_folder_in_a_repository_is_named(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.folder / ".git").mkdir()
    cli.write("servers/shop/pyproject.toml", PYPROJECT)
    cli.write("servers/shop/README.md", README)
    monkeypatch.chdir(cli.folder / "servers" / "shop")
    assert cli.json("publish", "--json")["repository"]["subfolder"] == "servers/shop"


def test_tools_with_errors_are_not_published(project: CommandLine) -> None:
    project.write(
        "tools.py", "from toolcrib import tool\n\n@tool\ndef bad(*args: int) -> int:\n    return 1\n"
    )
    done = project.run("publish", "tools.py")
    assert done.exit_code == 1
    assert "error: The tools have 1 error\n" in done.stderr
    assert not (project.folder / "server.json").exists()


def test_a_long_description_is_explained(project: CommandLine) -> None:
    project.write("pyproject.toml", PYPROJECT.replace("orders of a shop", "orders " * 20))
    done = project.run("publish")
    assert done.exit_code == 1
    assert "and the registry allows 100" in done.stderr
    assert project.run("publish", "--description", "Orders").exit_code == 0


@pytest.mark.parametrize("name", ["shop", "shop/tools", "io.github.ana/a/b", "io.github.ana/é"])
def test_an_invalid_name_is_explained(project: CommandLine, name: str) -> None:
    done = project.run("publish", "--name", name)
    assert done.exit_code == 1
    assert f"error: Invalid name for the registry: {name!r}" in done.stderr
    assert "io.github.ana/shop" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-package",), "--no-package requires --remote"),
        (("--header", "A: b"), "--header requires --remote"),
        (
            ("--no-package", "--remote", "https://x/mcp", "--env", "A"),
            "--no-package cannot be combined with --env",
        ),
        (("--env", "A B"), "--env must be NAME or NAME:DESCRIPTION, got 'A B'"),
        (("--env", "A", "--secret", "A"), "The variable A is given twice"),
        (("--check", "--to", "gone.json"), "No such file: gone.json"),
    ],
)
def test_wrong_usage_has_a_hint(project: CommandLine, words: tuple[str, ...], message: str) -> None:
    done = project.run("publish", *words)
    assert done.exit_code == 2
    assert f"error: {message}" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://localhost:8000/mcp", "localhost is this machine"),
        ("https://127.0.0.1/mcp", "127.0.0.1 is this machine"),
        ("ftp://x.example.com/mcp", "must be a URL such as https://"),
        ("shop", "must be a URL such as https://"),
    ],
)
def test_a_remote_that_others_cannot_reach_is_an_error(project: CommandLine, url: str, message: str) -> None:
    done = project.run("publish", "--remote", url)
    assert done.exit_code == 1
    assert message in done.stderr


# --- ownership ---------------------------------------------------------------------------------------


def test_a_readme_without_the_name_is_warned_about_with_the_line_to_add(project: CommandLine) -> None:
    line = "<!-- mcp-name: io.github.ana/shop-tools -->"
    for text in ("# Shop\n", "mcp-name: io.github.ana/shop-tools-2\n"):
        project.write("README.md", text)
        done = project.run("publish", "--name", "io.github.ana/shop-tools")
        assert done.exit_code == 0
        assert "warning: README.md has no line with 'mcp-name: io.github.ana/shop-tools'" in done.stderr
        assert f"\n{line}\n" in done.stderr
    (project.folder / "README.md").unlink()
    done = project.run("publish", "--name", "io.github.ana/shop-tools")
    assert "warning: The package has no README" in done.stderr
    assert line in done.stderr


# --- checking ----------------------------------------------------------------------------------------


def check(**changes: Any) -> list[tuple[str, str]]:
    report = Report()
    check_document({**MINIMAL, **changes}, report)
    return [(finding.level, finding.message) for finding in report.findings]


def with_package(**changes: Any) -> list[tuple[str, str]]:
    package = {**MINIMAL["packages"][0], **changes}
    return check(packages=[{key: value for key, value in package.items() if value is not None}])


ARGUMENT = {"type": "positional", "value": "x"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"title": "Shop", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"a": 1}}},
        {"packages": [], "remotes": [{"type": "sse", "url": "https://x.example.com/sse"}]},
        {"icons": [{"src": "https://x.example.com/i.png", "sizes": ["48x48", "any"], "theme": "dark"}]},
        {"version": "2026.11.18"},
        {"version": "1.0.0-alpha.1+x.y"},
    ],
)
def test_valid_documents(document: dict[str, Any]) -> None:
    assert check(**document) == []


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "shop"}, "'name'"),
        ({"name": "a/b/c"}, "'name'"),
        ({"description": ""}, "'description'"),
        ({"description": "x" * 101}, "'description'"),
        ({"version": 1}, "'version'"),
        ({"version": "latest"}, "'version': must be one version, not a range, got 'latest'"),
        ({"version": "^1.2"}, "'version': must be one version"),
        ({"version": ">=1,<2"}, "'version': must be one version"),
        ({"version": "1.x"}, "'version': must be one version"),
        ({"version": "1.*"}, "'version': must be one version"),
        ({"version": "1 || 2"}, "'version': must be one version"),
        ({"packages": []}, "there are neither packages nor remotes"),
        ({"packages": {}}, "'packages'"),
        ({"repository": {"url": "https://github.com/a/b"}}, "'repository.source'"),
        (
            {"repository": {"url": "https://x.example.com/a/b", "source": "github"}},
            "'repository': the source",
        ),
        ({"remotes": [{"type": "stdio", "url": "https://x.example.com"}]}, "'remotes[0].type'"),
        ({"remotes": [{"type": "sse"}]}, "'remotes[0].url'"),
        (
            {"remotes": [{"type": "sse", "url": "https://{host}/mcp"}]},
            "the variable {host} is not in 'variables'",
        ),
        ({"icons": [{"src": "https://x.example.com/i", "sizes": ["big"]}]}, "'icons[0].sizes[0]'"),
    ],
)
def test_invalid_documents_are_explained(document: dict[str, Any], message: str) -> None:
    found = check(**document)
    assert [level for level, _ in found] == ["error"]
    assert message in found[0][1]


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ({"registryType": "conda"}, "'packages[0].registryType'"),
        ({"version": None}, "'packages[0].version'"),
        ({"version": "~1"}, "'packages[0].version': must be one version"),
        ({"registryBaseUrl": "https://test.pypi.org"}, "must be https://pypi.org"),
        ({"registryType": "mcpb", "version": None}, "'packages[0].fileSha256'"),
        ({"fileSha256": "AB"}, "'packages[0].fileSha256'"),
        ({"transport": None}, "'packages[0].transport'"),
        ({"transport": {"type": "sse"}}, "'packages[0].transport.url'"),
        ({"environmentVariables": [{"description": "x"}]}, "'packages[0].environmentVariables[0].name'"),
        ({"environmentVariables": [{"name": "A", "default": 1}]}, "environmentVariables[0].default'"),
        ({"environmentVariables": [{"name": "A", "format": "path"}]}, "environmentVariables[0].format'"),
        ({"packageArguments": [{"type": "positional"}]}, "'packages[0].packageArguments[0]"),
        ({"packageArguments": [{"type": "named", "value": "x"}]}, "'packages[0].packageArguments[0].name'"),
        ({"runtimeArguments": [ARGUMENT, {"value": "x"}]}, "'packages[0].runtimeArguments[1]"),
    ],
)
def test_invalid_packages_are_explained(package: dict[str, Any], message: str) -> None:
    found = with_package(**package)
    assert found
    assert found[0][0] == "error"
    assert any(message in text for _, text in found)


def test_a_misspelt_key_is_a_warning_with_the_right_one() -> None:
    report = Report()
    package = {**MINIMAL["packages"][0], "enviromentVariables": []}
    check_document({**MINIMAL, "$schema": "https://x.example.com", "packages": [package]}, report)
    assert [(finding.level, finding.hint) for finding in report.findings] == [
        ("warning", "did you mean 'environmentVariables'?"),
        ("warning", f'write "$schema": "{SCHEMA_URL}"'),
    ]


def test_check_reads_an_existing_file(project: CommandLine) -> None:
    file = project.folder / "server.json"
    file.write_text(json.dumps(MINIMAL))
    done = project.run("publish", "--check")
    assert (done.exit_code, done.stderr) == (
        0,
        "note: server.json is valid: io.github.ana/shop-tools 1.2.0\n",
    )
    assert project.json("publish", "--check", "--json") == {
        "file": "server.json",
        "valid": True,
        "findings": [],
    }
    project.write("pyproject.toml", PYPROJECT.replace("1.2.0", "1.3.0"))
    done = project.run("publish", "--check")
    assert done.exit_code == 0
    assert "warning: server.json has the version 1.2.0, and the project 1.3.0" in done.stderr
    file.write_text(json.dumps({**MINIMAL, "version": "^1"}))
    assert project.run("publish", "--check").exit_code == 1
    assert project.json("publish", "--check", "--json")["valid"] is False
    assert json.loads(file.read_text())["version"] == "^1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n  x", "server.json:2: not valid JSON"),
        ("[]", "server.json must hold an object"),
        ('{"packages": [1]}', "server.json is not a server.json"),
        ('{"remotes": {}}', "server.json is not a server.json"),
    ],
)
def test_a_file_that_is_something_else_is_never_replaced(
    project: CommandLine, text: str, message: str
) -> None:
    file = project.folder / "server.json"
    file.write_text(text)
    for words in ((), ("--check",)):
        done = project.run("publish", *words)
        assert done.exit_code == 2
        assert message in done.stderr
    assert file.read_text() == text


def test_a_broken_pyproject_is_named(project: CommandLine) -> None:
    project.write("pyproject.toml", "[project\n")
    done = project.run("publish")
    assert done.exit_code == 2
    assert "pyproject.toml:1: not valid TOML" in done.stderr


def test_the_default_of_a_secret_would_be_published(project: CommandLine) -> None:
    project.write("toolcrib.toml", '[[publish.environment]]\nname = "A"\nsecret = true\ndefault = "x"\n')
    done = project.run("publish")
    assert done.exit_code == 2
    assert "toolcrib.toml:4: publish.environment[1].default: must not be set for a secret" in done.stderr


def test_the_readme_may_be_a_table(project: CommandLine) -> None:
    for readme in (
        '{text = "mcp-name: io.github.ana/shop-tools"}',
        '{file = "README.md", content-type = "x"}',
    ):
        project.write("pyproject.toml", PYPROJECT.replace('readme = "README.md"', f"readme = {readme}"))
        assert "warning" not in project.run("publish", "--json").stderr


def test_a_pyproject_above_the_repository_is_not_used(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("pyproject.toml", PYPROJECT)
    Path(cli.folder / "other" / ".git").mkdir(parents=True)
    monkeypatch.chdir(cli.folder / "other")
    assert "error: No pyproject.toml" in cli.run("publish").stderr
