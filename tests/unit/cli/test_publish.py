"""`toolcrib publish`: `server.json`, judged by the schema of the MCP registry, and `manifest.json`, judged
and packed by Anthropic's own program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.definitions.registry_schema import SCHEMA, SCHEMA_URL
from tests.support.system.node import Node, node
from toolcrib.client import Client
from toolcrib.validation.validator import Validator

from .conftest import ADD, CommandLine

__all__ = ["node"]

PYPROJECT = """
[project]
name = "shop-tools"
version = "1.2.0"
description = "Find and change the orders of a shop"
readme = "README.md"
license = "MIT"
authors = [{email = "x@example.com"}, {name = "Ana", email = "ana@example.com"}]
dependencies = ["toolcrib[yaml] >= 0.1"]

[project.scripts]
shop-tools = "shop:main"

[project.urls]
Homepage = "https://shop.example.com"
Repository = "https://github.com/ana/shop-tools.git"
"""
README = "# Shop tools\n\n<!-- mcp-name: io.github.ana/shop-tools -->\n"
SERVER_JSON: dict[str, Any] = {
    "$schema": SCHEMA_URL,
    "name": "io.github.ana/shop-tools",
    "title": "The shop",
    "description": "Find and change the orders of a shop",
    "version": "1.2.0",
    "repository": {"url": "https://github.com/ana/shop-tools", "source": "github"},
    "websiteUrl": "https://shop.example.com",
    "packages": [
        {
            "identifier": "shop-tools",
            "registryType": "pypi",
            "registryBaseUrl": "https://pypi.org",
            "version": "1.2.0",
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
        }
    ],
}
MANIFEST_JSON: dict[str, Any] = {
    "manifest_version": "0.4",
    "name": "shop-tools",
    "display_name": "The shop",
    "version": "1.2.0",
    "description": "Find and change the orders of a shop",
    "author": {"name": "Ana", "email": "ana@example.com"},
    "repository": {"type": "git", "url": "https://github.com/ana/shop-tools"},
    "server": {
        "type": "uv",
        "entry_point": "toolcrib.toml",
        "mcp_config": {
            "command": "uv",
            "args": [
                *("run", "--no-dev", "--directory", "${__dirname}"),
                *("toolcrib", "serve", "--stdio", "toolcrib.toml"),
            ],
        },
    },
    "tools": [{"name": "add", "description": "Add two whole numbers"}],
    "license": "MIT",
}
SETTINGS = '[server]\ntitle = "The shop"\ntargets = ["shop/tools.py"]\n'
VARIABLES = """
[[publish.environment]]
name = "SHOP_TOKEN"
description = "Of your shop"
required = true
secret = true

[[publish.environment]]
name = "SHOP_REGION"
default = "eu"
choices = ["eu", "us"]

[[publish.environment]]
name = "SHOP_LIMIT"
format = "number"
default = "5"

[[publish.environment]]
name = "SHOP_FAST"
format = "boolean"

[[publish.environment]]
name = "SHOP_DB"
format = "filepath"
"""


@pytest.fixture
def project(cli: CommandLine) -> CommandLine:
    (cli.folder / ".git").mkdir()
    cli.write("pyproject.toml", PYPROJECT)
    cli.write("README.md", README)
    cli.write("shop/__init__.py", "")
    cli.write("shop/tools.py", ADD)
    cli.write("toolcrib.toml", SETTINGS)
    return cli


def documents(cli: CommandLine) -> tuple[Any, Any]:
    """Return both documents, the first of which the registry accepts."""
    found = cli.json("publish", "--json")
    validator = Validator(SCHEMA, trusted=True)
    assert validator.problems(found["server.json"]) == []
    return found["server.json"], found["manifest.json"]


def test_both_files_are_made_of_the_project(project: CommandLine) -> None:
    assert documents(project) == (SERVER_JSON, MANIFEST_JSON)
    assert not (project.folder / "server.json").exists()
    done = project.run("publish")
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith("note: written: server.json, manifest.json, .mcpbignore\n")
    assert json.loads((project.folder / "server.json").read_text()) == SERVER_JSON
    assert json.loads((project.folder / "manifest.json").read_text()) == MANIFEST_JSON


def test_check_says_which_files_are_not_up_to_date(project: CommandLine) -> None:
    done = project.run("publish", "--check")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: not up to date: server.json, manifest.json, .mcpbignore\n")
    project.run("publish")
    for words in ((), ("--check",)):
        done = project.run("publish", *words)
        assert (done.exit_code, done.stderr) == (
            0,
            "note: up to date: server.json, manifest.json, .mcpbignore\n",
        )
    project.write("toolcrib.toml", SETTINGS + VARIABLES)
    done = project.run("publish", "--check")
    assert done.stderr.startswith("error: not up to date: server.json, manifest.json\n")


def test_everything_that_is_missing_is_explained_at_once(project: CommandLine) -> None:
    project.write("pyproject.toml", '[project]\nname = "shop"\n')
    done = project.run("publish")
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert errors == [
        "error: Missing version",
        "error: Missing description",
        "error: The server has no name for the registry",
        "error: No command for `uvx shop`",
        "error: The project does not depend on toolcrib, which starts the server",
        "error: Missing author",
    ]
    for error in errors:
        assert lines[lines.index(error) + 1].startswith("hint: ")
    assert lines[-1] == "note: Nothing written: 6 problems"
    assert not list(project.folder.glob("*.json"))


@pytest.mark.parametrize(
    ("old", "new", "words", "message"),
    [
        ("orders of a shop", "orders " * 20, (), "and the registry allows 100"),
        ("shop-tools = ", "shop = ", (), "No command for `uvx shop-tools`"),
        ("ana/shop-tools", "ana", (), "The repository is left out: https://github.com/ana"),
        ("toolcrib[yaml]", "toolcrib-extras", (), "The project does not depend on toolcrib"),
        ("", "", ("--version", "../../x"), "Not a version: '../../x'"),
        ("", "", ("gone.py",), "No such file or folder: gone.py"),
    ],
)
def test_mistakes_have_a_hint(
    project: CommandLine, old: str, new: str, words: tuple[str, ...], message: str
) -> None:
    project.write("pyproject.toml", PYPROJECT.replace(old, new, 1))
    done = project.run("publish", *words)
    assert message in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("name", ["shop/tools", "io.github.ana/a-"])
def test_a_name_comes_from_the_settings_first(project: CommandLine, name: str) -> None:
    project.write("toolcrib.toml", f'{SETTINGS}[publish]\nname = "{name}"\n')
    done = project.run("publish", "--json")
    if "." in name:
        assert json.loads(done.stdout)["server.json"]["name"] == name
        assert f"warning: The README of the package has no line with 'mcp-name: {name}'" in done.stderr
        assert f"<!-- mcp-name: {name} -->" in done.stderr
    else:
        assert f"error: Invalid name: '{name}'" in done.stderr


def test_variables_are_asked_for_in_both(project: CommandLine) -> None:
    project.write("toolcrib.toml", SETTINGS + VARIABLES)
    server, manifest = documents(project)
    assert server["packages"][0]["environmentVariables"] == [
        {"name": "SHOP_TOKEN", "description": "Of your shop", "isRequired": True, "isSecret": True},
        {"name": "SHOP_REGION", "default": "eu", "choices": ["eu", "us"]},
        {"name": "SHOP_LIMIT", "format": "number", "default": "5"},
        {"name": "SHOP_FAST", "format": "boolean"},
        {"name": "SHOP_DB", "format": "filepath"},
    ]
    assert manifest["server"]["mcp_config"]["env"]["SHOP_TOKEN"] == "${user_config.shop_token}"
    assert manifest["user_config"] == {
        "shop_token": {
            "type": "string",
            "title": "Shop token",
            "description": "Of your shop",
            "required": True,
            "sensitive": True,
        },
        "shop_region": {
            "type": "string",
            "title": "Shop region",
            "description": "The environment variable SHOP_REGION (one of eu, us)",
            "default": "eu",
        },
        "shop_limit": {
            "type": "number",
            "title": "Shop limit",
            "description": "The environment variable SHOP_LIMIT",
            "default": 5,
        },
        "shop_fast": {
            "type": "boolean",
            "title": "Shop fast",
            "description": "The environment variable SHOP_FAST",
            "default": False,
        },
        "shop_db": {
            "type": "file",
            "title": "Shop db",
            "description": "The environment variable SHOP_DB",
            "default": "",
        },
    }


def test_a_server_at_a_url_needs_no_package(project: CommandLine) -> None:
    project.write("pyproject.toml", PYPROJECT.replace("shop-tools = ", "shop = "))
    url = "https://shop.example.com/mcp"
    project.write("toolcrib.toml", f'{SETTINGS}[publish]\nurl = "{url}"\n[auth]\nkeys = "a.keys.json"\n')
    server, _ = documents(project)
    secret = {"isRequired": True, "isSecret": True}
    header = {
        "name": "Authorization",
        "value": "Bearer {api_key}",
        **secret,
        "variables": {"api_key": secret},
    }
    assert "packages" not in server
    assert server["remotes"] == [{"type": "streamable-http", "url": url, "headers": [header]}]
    project.write("toolcrib.toml", f'{SETTINGS}[publish]\nurl = "http://localhost:8000/mcp"\n')
    assert "error: Others cannot use http://localhost:8000/mcp" in project.run("publish").stderr


def test_anything_that_was_added_by_hand_is_kept(project: CommandLine) -> None:
    project.run("publish")
    server = json.loads((project.folder / "server.json").read_text())
    server["icons"] = [{"src": "https://shop.example.com/icon.png"}]
    server["repository"]["subfolder"] = "servers/shop"
    server["remotes"] = [{"type": "sse", "url": "https://shop.example.com/sse"}]
    server["packages"][0]["packageArguments"] = [{"type": "positional", "value": "--fast"}]
    server["packages"].append(
        {"registryType": "oci", "identifier": "ghcr.io/x/y:1", "transport": {"type": "stdio"}}
    )
    project.write("server.json", json.dumps(server))
    project.write("manifest.json", json.dumps({**MANIFEST_JSON, "keywords": ["shop"]}))
    project.write("pyproject.toml", PYPROJECT.replace("1.2.0", "1.3.0"))
    found, manifest = documents(project)
    assert found == json.loads(json.dumps(server).replace("1.2.0", "1.3.0"))
    assert manifest["keywords"] == ["shop"]
    assert manifest["version"] == "1.3.0"


@pytest.mark.parametrize("text", ["{\n  x", "[]", '{"name": "a web application"}'])
@pytest.mark.parametrize("name", ["server.json", "manifest.json"])
def test_a_file_that_is_something_else_is_never_replaced(project: CommandLine, name: str, text: str) -> None:
    project.write(name, text)
    done = project.run("publish")
    assert done.exit_code == 2
    assert f"is not a {name} of MCP" in done.stderr
    assert (project.folder / name).read_text() == text


def test_only_the_manifest_needs_no_package(project: CommandLine) -> None:
    project.write("pyproject.toml", PYPROJECT.partition("[project.scripts]")[0])
    assert project.run("publish", "--only", "manifest").exit_code == 0
    assert sorted(path.name for path in project.folder.glob("*.json")) == ["manifest.json"]


def test_the_version_of_an_installed_package_is_found(project: CommandLine) -> None:
    text = PYPROJECT.replace("shop-tools", "click").replace('version = "1.2.0"', 'dynamic = ["version"]')
    project.write("pyproject.toml", text)
    assert documents(project)[0]["version"][0].isdigit()
    project.write("pyproject.toml", text.replace('"click"', '"not-installed"'))
    assert "error: Missing version" in project.run("publish").stderr


def test_tools_with_errors_are_not_published(project: CommandLine) -> None:
    bad = "from toolcrib import tool\n\n@tool\ndef bad(*args: int) -> int:\n    return 1\n"
    project.write("shop/tools.py", bad)
    done = project.run("publish")
    assert done.exit_code == 1
    assert "note: Nothing written: " in done.stderr
    assert not (project.folder / "server.json").exists()


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


def test_a_pyproject_above_the_repository_is_not_used(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("pyproject.toml", PYPROJECT)
    Path(cli.folder / "other" / ".git").mkdir(parents=True)
    monkeypatch.chdir(cli.folder / "other")
    cli.write("other/tools.py", ADD)
    assert "error: No pyproject.toml names the project" in cli.run("publish", "tools.py").stderr


def test_a_target_outside_the_project_is_explained(
    project: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "other.py"
    other.write_text(ADD.replace("add", "plus"))
    done = project.run("publish", "toolcrib.toml", str(other))
    assert "other.py is not below" in done.stderr
    assert done.exit_code == 1


# --- Anthropic's program -----------------------------------------------------------------------------

_CONFIG = """
import { readFileSync } from "fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";
const [folder, settings] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(`${folder}/manifest.json`));
const place = { extensionPath: folder, systemDirs: {}, pathSeparator: "/" };
const options = { ...place, manifest, userConfig: JSON.parse(settings) };
console.log(JSON.stringify((await getMcpConfigForManifest(options)) ?? null));
"""


class Mcpb:
    """The program `mcpb`, and the function with which hosts make the command of a bundle."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def run(self, *words: str) -> str:
        script = self.node.package("@anthropic-ai/mcpb", "dist", "cli", "cli.js")
        return self._run(str(script), *words)

    def config(self, folder: Path, **settings: Any) -> Any:
        script = self.node.folder / "node_modules" / f".config-{os.getpid()}.mjs"  # where imports are found
        script.write_text(_CONFIG)
        try:
            return json.loads(self._run(str(script), str(folder), json.dumps(settings)).splitlines()[-1])
        finally:
            script.unlink()

    def _run(self, *words: str) -> str:
        done = subprocess.run([self.node.program, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


async def test_a_real_host_packs_opens_and_starts_a_bundle(node: Node, project: CommandLine) -> None:
    mcpb = Mcpb(node)
    project.write("toolcrib.toml", SETTINGS + VARIABLES)
    assert project.run("publish").exit_code == 0
    mcpb.run("pack", str(project.folder), "shop.mcpb")
    mcpb.run("unpack", "shop.mcpb", "unpacked")
    folder = project.folder / "unpacked"
    assert "Manifest schema validation passes!" in mcpb.run("validate", str(folder))
    assert mcpb.config(folder) is None  # the token is required
    config = mcpb.config(folder, shop_token="s3cret")
    assert config["env"]["SHOP_TOKEN"] == "s3cret"
    assert config["env"]["SHOP_REGION"] == "eu"
    assert config["command"] == "uv"
    assert config["args"][:4] == ["run", "--no-dev", "--directory", str(folder)]
    # What uv does once the packages are installed: run the command in the folder.
    script = f"import os, sys; os.chdir({str(folder)!r}); from toolcrib.cli import main; main()"
    async with Client([sys.executable, "-c", script, *config["args"][5:]]) as client:
        assert [each.name for each in await client.list_tools()] == ["add"]
        assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3


def test_secrets_are_not_packed(node: Node, project: CommandLine) -> None:
    secret = (
        *(".env", ".env.local", ".envrc", ".ENV", "certs/tls.key", "SERVER.KEY", "id_rsa", "secrets.yaml"),
        *("toolcrib.keys.json", "audit.db", "audit.db-wal", "gone/audit.bin", "gone/audit.bin.key"),
        *("work/tasks.bin", "work/tasks.bin-wal", "seen/points[1].bin", "kubeconfig"),
        *("data/results.sqlite3-wal", ".aws/config", ".ssh/known_hosts", ".kube/config", "Credentials.json"),
    )
    useless = (".venv/x.py", "env3/pyvenv.cfg", "__pycache__/x.pyc", "dist/x.whl", "a.log", "notes/x.txt")
    for name in (*secret, *useless, "key.py", "public.pem"):
        project.write(name, "x")
    (project.folder / "link[1]").symlink_to("/etc/hosts")
    project.write(".mcpbignore", "# own\nnotes\n!public.pem\n")
    policy = '[auth]\nkeys = "toolcrib.keys.json"\n[state]\nurl = "sqlite:///work/tasks.bin"\n'
    policy += '[audit]\nfile = "gone/audit.bin"\ncheckpoints = "seen/points[1].bin"\n'
    project.write("toolcrib.toml", SETTINGS + policy)
    assert project.run("publish").exit_code == 0
    Mcpb(node).run("pack", str(project.folder), "shop.mcpb")
    with zipfile.ZipFile("shop.mcpb") as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert names == {
        *("README.md", "key.py", "manifest.json", "public.pem", "pyproject.toml", "server.json"),
        *("shop/__init__.py", "shop/tools.py", "toolcrib.toml"),
    }
    ignored = (project.folder / ".mcpbignore").read_text()
    assert ignored.endswith("# own\nnotes\n!public.pem\n")
