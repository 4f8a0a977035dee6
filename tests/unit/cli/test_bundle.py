"""`toolcrib bundle`: MCPB bundles, opened and validated with Anthropic's own program."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node, node
from toolcrib.client import Client

from .conftest import ADD, CommandLine

__all__ = ["node"]

PYPROJECT = """
[project]
name = "shop-tools"
version = "1.2.0"
description = "Find and change the orders of a shop"
requires-python = ">=3.12"
license = "MIT"
keywords = ["shop"]
authors = [{email = "x@example.com"}, {name = "Ana", email = "ana@example.com"}]
dependencies = ["toolcrib[yaml] >= 0.1"]

[project.urls]
Homepage = "https://shop.example.com"
Documentation = "https://shop.example.com/docs"
Repository = "https://github.com/ana/shop-tools"
Issues = "https://github.com/ana/shop-tools/issues"
"""

SERVER = """
from toolcrib import MCPServer

server = MCPServer("shop")


@server.tool
def find_order(number: int) -> str:
    '''Find an order.'''
    return "x"


@server.prompt
def complain(order: int, tone: str = "polite") -> str:
    '''Write a complaint.'''
    return f"Write a {tone} complaint about order {order}."
"""


def png(width: int, height: int) -> bytes:
    """Return a black picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture
def project(cli: CommandLine) -> CommandLine:
    (cli.folder / ".git").mkdir()
    cli.write("pyproject.toml", PYPROJECT)
    cli.write("shop/__init__.py", "")
    cli.write("shop/tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntitle = "The shop"\ntargets = ["shop/tools.py"]\n')
    return cli


@pytest.fixture
def lone(cli: CommandLine) -> CommandLine:
    """One file, without a project."""
    (cli.folder / ".git").mkdir()
    cli.write("tools.py", f'"""Sums of all kinds."""\n{ADD}')
    return cli


def names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


def manifest(file: Path) -> Any:
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read("manifest.json"))


# --- contents ----------------------------------------------------------------------------------------


def test_a_project_is_packed_with_its_manifest_first(project: CommandLine) -> None:
    done = project.run("bundle")
    assert done.exit_code == 0, done.stderr
    file = project.folder / "shop-tools-1.2.0.mcpb"
    assert names(file) == [
        "manifest.json",
        "pyproject.toml",
        "shop/__init__.py",
        "shop/tools.py",
        "toolcrib.toml",
    ]
    assert manifest(file) == {
        "manifest_version": "0.4",
        "name": "shop-tools",
        "display_name": "The shop",
        "version": "1.2.0",
        "description": "Find and change the orders of a shop",
        "author": {"name": "Ana", "email": "ana@example.com"},
        "repository": {"type": "git", "url": "https://github.com/ana/shop-tools"},
        "homepage": "https://shop.example.com",
        "documentation": "https://shop.example.com/docs",
        "support": "https://github.com/ana/shop-tools/issues",
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
        "keywords": ["shop"],
        "license": "MIT",
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.12"}},
    }
    assert "note: shop-tools-1.2.0.mcpb written: 1 tool, 5 files, " in done.stderr
    assert " kB unpacked)" in done.stderr


def test_the_same_files_give_the_same_bytes(project: CommandLine) -> None:
    first = project.json("bundle", "-o", "a.mcpb", "--json")
    for path in (project.folder / "shop").iterdir():
        os.utime(path, (1, 1))
    second = project.json("bundle", "-o", "b.mcpb", "--json")
    assert first["sha256"] == second["sha256"]
    assert (project.folder / "a.mcpb").read_bytes() == (project.folder / "b.mcpb").read_bytes()
    with zipfile.ZipFile(project.folder / "a.mcpb") as archive:
        assert {(info.date_time, info.external_attr >> 16) for info in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), 0o100644)
        }


def test_secrets_environments_and_caches_are_left_out_and_named(project: CommandLine) -> None:
    secret = (
        ".env",
        ".env.local",
        "certs/tls.key",
        "id_rsa",
        "toolcrib.keys.json",
        "audit.db",
        "audit.db-wal",
    )
    useless = (
        ".venv/x.py",
        "env3/pyvenv.cfg",
        "__pycache__/x.pyc",
        "shop/__pycache__/y.pyc",
        "dist/x.whl",
        "a.log",
    )
    for name in (*secret, *useless, ".env.example", "docs/build/page.md", "data/big.csv", "notes/x.txt"):
        project.write(name, "x")
    (project.folder / "link").symlink_to("/etc/hosts")
    project.write(".mcpbignore", "# own\ndata/\n")
    policy = '[auth]\nkeys = "toolcrib.keys.json"\n[audit]\nfile = "audit.db"\n'
    project.write("toolcrib.toml", f'[server]\ntargets = ["shop/tools.py"]\n{policy}')
    report = project.json("bundle", "--exclude", "notes/*", "--json")
    left_out = {each["path"]: each["reason"] for each in report["left_out"]}
    assert {path for path, reason in left_out.items() if reason == "may be secret"} == {*secret}
    assert {path for path, reason in left_out.items() if reason == "excluded"} == {"data/", "notes/x.txt"}
    assert left_out["link"] == "link"
    assert {"dist/", ".venv/", "env3/", "__pycache__/", "shop/__pycache__/", "a.log"} <= left_out.keys()
    assert report["files"] == [
        *(".env.example", "docs/build/page.md", "manifest.json", "pyproject.toml"),
        *("shop/__init__.py", "shop/tools.py", "toolcrib.toml"),
    ]
    assert names(project.folder / report["file"])[1:] == [
        name for name in report["files"] if name != "manifest.json"
    ]
    done = project.run("bundle", "--include", "certs/tls.key")
    assert "note: left out, may be secret: .env, .env.local, " in done.stderr
    assert "certs/tls.key" in names(project.folder / "shop-tools-1.2.0.mcpb")


def test_secrets_in_any_case_databases_and_unsafe_names_are_left_out(project: CommandLine) -> None:
    secret = (
        *(".envrc", "SERVER.KEY", ".ENV", "kubeconfig", "dev.kubeconfig", "work/tasks.bin", "counters.bin"),
        *("data/results.sqlite", "data/results.sqlite3-wal", "data/jobs.db-shm", "seen/points.bin"),
    )
    folders = (".kube/config", ".aws/config", ".ssh/known_hosts")
    for name in (*secret, *folders, "evil\\..\\x.py", "key.py"):
        project.write(name, "x")
    policy = '[tasks]\nfile = "work/tasks.bin"\n[policy]\nstore = "counters.bin"\n'
    policy += '[audit]\nfile = "gone/audit.bin"\ncheckpoints = "seen/points.bin"\n'
    project.write("toolcrib.toml", f'[server]\ntargets = ["shop/tools.py"]\n{policy}')
    report = project.json("bundle", "--json")
    left_out = {each["path"]: each["reason"] for each in report["left_out"]}
    assert {path for path, reason in left_out.items() if reason == "may be secret"} == {*secret}
    assert {".kube/", ".aws/", ".ssh/"} <= left_out.keys()
    assert left_out["evil\\..\\x.py"] == "a backslash in its name"
    assert "key.py" in report["files"]
    again = project.json("bundle", "--json", "--include", "*")  # which takes secrets, but no unsafe name
    assert "SERVER.KEY" in again["files"]
    assert "evil\\..\\x.py" not in again["files"]


def test_one_file_gets_a_project_with_the_packages_it_imports(lone: CommandLine) -> None:
    lone.write("tools.py", f'"""Sums of all kinds."""\nimport json, helpers, click\nimport kit.more\n{ADD}')
    lone.write("helpers.py", "import msgspec\nimport tools\n")
    lone.write("kit/__init__.py", "")
    lone.write("kit/more.py", "from . import other\n")
    lone.write("kit/other.py", "")
    lone.write("unrelated.py", "import attrs\n")
    done = lone.run("bundle", "tools.py", "--author", "Ana")
    assert done.exit_code == 0, done.stderr
    file = lone.folder / "tools-0.1.0.mcpb"
    own = ["helpers.py", "kit/__init__.py", "kit/more.py", "kit/other.py"]
    assert names(file) == ["manifest.json", *own, "pyproject.toml", "tools.py"]
    with zipfile.ZipFile(file) as archive:
        text = archive.read("pyproject.toml").decode()
    lines = [line.strip(' ",').partition(">=")[0] for line in text.splitlines() if line.startswith("    ")]
    assert lines == ["toolcrib", "click", "msgspec"]
    assert 'name = "tools"' in text
    assert manifest(file)["description"] == "Sums of all kinds."
    assert manifest(file)["server"]["entry_point"] == "tools.py"


def test_a_script_comment_names_the_packages(lone: CommandLine) -> None:
    comment = (
        '# /// script\n# requires-python = ">=3.13"\n# dependencies = [\n#   "requests<3",\n# ]\n# ///\n'
    )
    lone.write("tools.py", f'{comment}"""Sums."""\nimport click\n{ADD}')
    done = lone.run("bundle", "tools.py", "--author", "Ana")
    assert "note: pyproject.toml made, with toolcrib>=" in done.stderr
    with zipfile.ZipFile(lone.folder / "tools-0.1.0.mcpb") as archive:
        text = archive.read("pyproject.toml").decode()
    assert '"requests<3",' in text
    assert "click" not in text
    assert 'requires-python = ">=3.13"' in text


def test_a_module_that_nothing_installed_has_is_warned_about(lone: CommandLine) -> None:
    lone.write(
        "tools.py", f'"""Sums."""\ntry:\n    import absent_package\nexcept ImportError:\n    pass\n{ADD}'
    )
    done = lone.run("bundle", "tools.py", "--author", "Ana")
    assert done.exit_code == 0
    assert "warning: No installed package has the module 'absent_package'" in done.stderr


def test_a_folder_keeps_its_name(lone: CommandLine) -> None:
    lone.write("kit/a.py", ADD)
    report = lone.json("bundle", "kit/", "--author", "Ana", "--description", "D", "--json")
    assert report["files"] == ["kit/a.py", "manifest.json", "pyproject.toml"]
    assert report["manifest"]["name"] == "kit"
    assert report["manifest"]["server"]["mcp_config"]["args"][-1] == "kit"


def test_a_module_of_the_project_is_served_by_its_name(project: CommandLine) -> None:
    server = project.json("bundle", "shop.tools", "--json", "--", "--db", "x")["manifest"]["server"]
    assert server["entry_point"] == "shop/tools.py"
    assert server["mcp_config"]["args"][-4:] == ["shop.tools", "--", "--db", "x"]


# --- the manifest ------------------------------------------------------------------------------------


def test_variables_become_user_settings(project: CommandLine) -> None:
    variables = """
    [[publish.environment]]
    name = "SHOP_REGION"
    required = true
    choices = ["eu", "us"]

    [[publish.environment]]
    name = "SHOP_LIMIT"
    format = "number"
    default = "5"

    [[publish.environment]]
    name = "SHOP_FAST"
    format = "boolean"
    default = "true"

    [[publish.environment]]
    name = "SHOP_DB"
    format = "filepath"
    """
    project.write("toolcrib.toml", '[server]\ntargets = ["shop/tools.py"]\n' + variables.replace("    ", ""))
    words = ("--secret", "SHOP_TOKEN: The token of your shop", "--env", "SHOP_NOTE")
    found = project.json("bundle", *words, "--json")["manifest"]
    assert found["server"]["mcp_config"]["env"]["SHOP_TOKEN"] == "${user_config.shop_token}"
    assert found["user_config"] == {
        "shop_note": {
            "type": "string",
            "title": "Shop note",
            "description": "The environment variable SHOP_NOTE",
            "default": "",
        },
        "shop_token": {
            "type": "string",
            "title": "Shop token",
            "description": "The token of your shop",
            "required": True,
            "sensitive": True,
        },
        "shop_region": {
            "type": "string",
            "title": "Shop region",
            "description": "The environment variable SHOP_REGION (one of eu, us)",
            "required": True,
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
            "default": True,
        },
        "shop_db": {
            "type": "file",
            "title": "Shop db",
            "description": "The environment variable SHOP_DB",
            "default": "",
        },
    }


def test_prompts_of_a_server_are_listed(lone: CommandLine) -> None:
    lone.write("shop.py", SERVER)
    found = lone.json("bundle", "shop.py", "--author", "Ana", "--description", "D", "--json")["manifest"]
    assert [each["name"] for each in found["tools"]] == ["find_order"]
    assert found["prompts_generated"] is True
    assert found["prompts"] == [
        {
            "name": "complain",
            "description": "Write a complaint",
            "arguments": ["order", "tone"],
            "text": "Write a complaint",
        }
    ]


def test_an_icon_is_a_png_with_its_size(
    project: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("pictures") / "shop.png"
    elsewhere.write_bytes(png(64, 32))
    report = project.json("bundle", "--icon", str(elsewhere), "--json")
    assert report["manifest"]["icons"] == [{"src": "icon.png", "size": "64x32"}]
    assert "icon.png" in report["files"]
    (project.folder / "art.png").write_bytes(png(8, 8))
    config = '[server]\ntargets = ["shop/tools.py"]\n[publish]\nicon = "art.png"\n'
    project.write("toolcrib.toml", config)
    assert project.json("bundle", "--json")["manifest"]["icon"] == "art.png"
    for file, message in (
        ("pyproject.toml", "is not a PNG file"),
        ("gone.png", "cannot be read: No such file"),
    ):
        done = project.run("bundle", "--icon", file)
        assert done.exit_code == 1
        assert f"error: The icon {file} {message}" in done.stderr


# --- mistakes ----------------------------------------------------------------------------------------


def test_everything_that_is_missing_is_explained_at_once(lone: CommandLine) -> None:
    lone.write("tools.py", ADD)
    done = lone.run("bundle", "tools.py")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "error: There is no description",
        "hint: write description under [publish] in toolcrib.toml, or use --description TEXT",
        "error: There is no author",
        "hint: write author under [publish] in toolcrib.toml, or use --author NAME",
        "note: No bundle written: 2 problems",
    ]
    assert not list(lone.folder.glob("*.mcpb"))


def test_a_bundle_without_options_takes_everything_from_toolcrib_toml(lone: CommandLine) -> None:
    facts = '[publish]\nauthor = "Ana"\ndescription = "Sums"\n'
    lone.write("toolcrib.toml", f'[server]\nname = "sums"\nversion = "3"\ntargets = ["tools.py"]\n{facts}')
    found = lone.json("bundle", "--json")
    assert found["file"] == "sums-3.mcpb"
    assert found["manifest"]["author"] == {"name": "Ana"}
    assert found["manifest"]["description"] == "Sums"
    assert found["files"] == ["manifest.json", "pyproject.toml", "toolcrib.toml", "tools.py"]


def test_a_project_must_depend_on_toolcrib(project: CommandLine) -> None:
    project.write("pyproject.toml", PYPROJECT.replace("toolcrib[yaml] >= 0.1", "toolcrib-extras"))
    done = project.run("bundle")
    assert done.exit_code == 1
    assert (
        "error: pyproject.toml: The project does not depend on toolcrib, which starts the server"
        in done.stderr
    )
    assert 'hint: add "toolcrib>=' in done.stderr


def test_tools_with_errors_are_not_packed(lone: CommandLine) -> None:
    lone.write("tools.py", "from toolcrib import tool\n\n@tool\ndef bad(*args: int) -> int:\n    return 1\n")
    done = lone.run("bundle", "tools.py", "--author", "Ana", "--description", "D")
    assert done.exit_code == 1
    assert "error: tools.py:" in done.stderr
    assert not list(lone.folder.glob("*.mcpb"))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "No targets to bundle"),
        (("tools.py", "-o", "x.zip"), 2, "Not the name of a bundle: x.zip"),
        (("gone.py",), 2, "No such file or folder: gone.py"),
        (("tools.py", "--author", "A", "--env", "1"), 2, "--env must be NAME or NAME:DESCRIPTION, got '1'"),
        (("tools.py", "--author", "A", "--exclude", "*.py"), 1, "tools.py is not in the bundle: excluded"),
        (("tools.py", "--author", "A", "--version", "../../x"), 1, "Not a version: '../../x'"),
        (("tools.py", "--author", "A", "--version", "1\\2"), 1, "Not a version: '1"),
        (("colorsys", "--author", "A"), 1, "colorsys is not a file, and there is no pyproject.toml"),
    ],
)
def test_mistakes_have_a_hint(lone: CommandLine, words: tuple[str, ...], code: int, message: str) -> None:
    done = lone.run("bundle", *words)
    assert done.exit_code == code
    assert f"error: {message}" in done.stderr
    assert "hint: " in done.stderr


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


async def test_a_real_host_opens_validates_and_starts_a_bundle(node: Node, project: CommandLine) -> None:
    mcpb = Mcpb(node)
    (project.folder / "icon.png").write_bytes(png(512, 512))
    words = ("--icon", "icon.png", "--secret", "SHOP_TOKEN:The token", "--env", "SHOP_REGION")
    assert project.run("bundle", "-o", "shop.mcpb", *words).exit_code == 0
    assert "shop.mcpb" in mcpb.run("info", "shop.mcpb")
    mcpb.run("unpack", "shop.mcpb", "unpacked")
    folder = project.folder / "unpacked"
    assert "Manifest schema validation passes!" in mcpb.run("validate", str(folder))
    assert mcpb.config(folder) is None  # the token is required
    config = mcpb.config(folder, shop_token="s3cret")
    assert config["env"] == {"SHOP_TOKEN": "s3cret", "SHOP_REGION": ""}
    assert config["command"] == "uv"
    assert config["args"][:4] == ["run", "--no-dev", "--directory", str(folder)]
    # What uv does once the packages are installed: run the command in the folder.
    script = f"import os, sys; os.chdir({str(folder)!r}); from toolcrib.cli import main; main()"
    async with Client([sys.executable, "-c", script, *config["args"][5:]]) as client:
        assert [each.name for each in await client.list_tools()] == ["add"]
        assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3


def test_a_real_host_accepts_the_bundle_of_one_file(node: Node, lone: CommandLine) -> None:
    mcpb = Mcpb(node)
    lone.write("shop.py", f'"""Orders."""\n{SERVER}')
    assert lone.run("bundle", "shop.py", "--author", "Ana").exit_code == 0
    mcpb.run("unpack", "shop-0.1.0.mcpb", "unpacked")
    folder = lone.folder / "unpacked"
    assert "Manifest schema validation passes!" in mcpb.run("validate", str(folder))
    assert mcpb.config(folder)["args"][-1] == "shop.py"
    mcpb.run("pack", str(folder), "again.mcpb")
    assert sorted(names(lone.folder / "again.mcpb")) == ["manifest.json", "pyproject.toml", "shop.py"]
