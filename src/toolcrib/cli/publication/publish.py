"""`toolcrib publish`: write the `server.json` that describes a server in the MCP registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.load import load
from toolcrib.cli.options import Command, CommandError, Targets, exclusive, json_option, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.publication.project import Project, Report, collect_variables, find_project, has_settings
from toolcrib.cli.publication.registry import (
    FILE_NAME,
    PublishOptions,
    check_document,
    check_ownership,
    make_document,
)
from toolcrib.cli.text import count
from toolcrib.config.atomic_file import write_file

EXAMPLES = """
toolcrib publish                             write server.json
toolcrib publish --check                     is server.json valid?
toolcrib publish --secret 'SHOP_TOKEN:The token of your shop'
toolcrib publish --remote https://shop.example.com/mcp --no-package
toolcrib publish --remote https://shop.example.com/mcp --header X-Api-Key
toolcrib publish --json                      print it, write nothing
toolcrib publish shop.py -- --db={db_path}   arguments of the package
"""


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="FILE", help="File to write.  [default: server.json]"
)
@click.option("--check", is_flag=True, help="Write nothing; check the existing file.")
@click.option("--name", metavar="NAME", help="Name in the registry, such as io.github.ana/shop.")
@click.option("--description", metavar="TEXT", help="What the server does, in at most 100 characters.")
@click.option("--version", metavar="VERSION", help="Version.  [default: that of pyproject.toml]")
@click.option("--repository", metavar="URL", help="Repository of the source.")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "streamable-http"]),
    default="stdio",
    help="How clients talk to the package once it runs.  [default: stdio]",
)
@click.option(
    "--env", multiple=True, metavar="NAME[:TEXT]", help="Optional environment variable; repeatable."
)
@click.option("--secret", multiple=True, metavar="NAME[:TEXT]", help="Required secret variable; repeatable.")
@click.option("--remote", multiple=True, metavar="URL", help="URL of a running server; repeatable.")
@click.option("--header", multiple=True, metavar="NAME[: VALUE]", help="Header of the remotes; repeatable.")
@click.option("--no-package", is_flag=True, help="The server is not on PyPI; only with --remote.")
def publish(
    terminal: Terminal,
    targets: Targets,
    as_json: bool,
    to: Path | None,
    check: bool,
    name: str | None,
    description: str | None,
    version: str | None,
    repository: str | None,
    transport: str,
    env: Sequence[str],
    secret: Sequence[str],
    remote: Sequence[str],
    header: Sequence[str],
    no_package: bool,
) -> int:
    """Write the server.json of the MCP registry.

    Facts come from pyproject.toml, toolcrib.toml ([publish]) and the options; nothing is sent anywhere. The
    words after -- are the arguments of the package. In arguments, header values and URLs, clients ask for
    what is in {braces}. Icons, remotes and the like in an existing file are kept. Exit code 1: not written,
    or not valid.

    A TARGET is a Python file, folder, module, module:object or toolcrib.toml; its tools must have no errors.
    """
    file = to or Path(FILE_NAME)
    if check:
        return _check(file, targets, as_json, terminal)
    if no_package and not remote:
        raise CommandError("--no-package requires --remote", "nobody could use the server otherwise")
    if header and not remote:
        raise CommandError("--header requires --remote", "a package has environment variables: --secret NAME")
    if no_package and (env or secret or targets.arguments or transport != "stdio"):
        raise exclusive("--no-package", "--env, --secret, --transport or arguments: they are for the package")
    project = find_project(targets)
    report = Report()
    if has_settings(targets):
        _check_tools(targets, report, terminal)
    options = PublishOptions(
        name=name,
        description=description,
        version=version,
        repository=repository,
        transport=transport,
        package=not no_package,
        remotes=remote,
        headers=header,
        arguments=targets.arguments,
        variables=collect_variables(project.config, env, secret),
    )
    old = _read(file) if file.exists() else {}
    document = make_document(project, options, old, report)
    if not report.errors:
        check_document(document, report)
        if not no_package:
            check_ownership(project, document["name"], report)
    report.show(terminal)
    if report.errors:
        terminal.message("note", f"{file} not written: {count(len(report.errors), 'problem')}")
        return 1
    if as_json:
        terminal.json(document)
    if not as_json or to is not None:
        _write(file, document, old, terminal)
    return 0


def _check_tools(targets: Targets, report: Report, terminal: Terminal) -> None:
    """Report the errors of tools: a server that cannot be served should not be published."""
    loaded = load(targets, terminal)
    loaded.build_tools(terminal)
    for finding in loaded.errors:
        terminal.finding(finding)
    if loaded.errors:
        text = f"The tools have {count(len(loaded.errors), 'error')}"
        report.error(text, "fix them: toolcrib check shows them all")


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text", "save it as UTF-8") from None
    except json.JSONDecodeError as error:
        text = f"{file}:{error.lineno}: not valid JSON: {error.msg[0].lower()}{error.msg[1:]}"
        raise CommandError(text, "fix it, or name another file with --to") from None
    if not isinstance(found, dict):
        raise CommandError(f"{file} must hold an object", "name another file with --to")
    lists = [key for key in ("packages", "remotes") if not isinstance(found.get(key, []), list)]
    if lists or any(not isinstance(each, dict) for each in found.get("packages", ())):
        raise CommandError(f"{file} is not a server.json", "name another file with --to")
    return found


def _write(file: Path, document: dict[str, Any], old: dict[str, Any], terminal: Terminal) -> None:
    label = f"{document['name']} {document['version']}"
    if document == old:
        terminal.message("note", f"{file} is up to date: {label}")
        return
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_file(file, text.encode())
    ways = [f"PyPI package {each['identifier']}" for each in document.get("packages", ())]
    ways += [each["url"] for each in document.get("remotes", ())]
    steps = "next: upload the package, then run mcp-publisher login and mcp-publisher publish"
    if not document.get("packages"):
        steps = "next: run mcp-publisher login and mcp-publisher publish"
    terminal.message("note", f"{file} written: {label}, {', '.join(ways)}", steps)


def _check(file: Path, targets: Targets, as_json: bool, terminal: Terminal) -> int:
    if not file.is_file():
        raise CommandError(f"No such file: {file}", "write it: run this without --check")
    report = Report()
    document = _read(file)
    check_document(document, report, str(file))
    if not report.errors:
        _compare(document, find_project(targets), str(file), report)
    if as_json:
        terminal.json(
            {
                "file": str(file),
                "valid": not report.errors,
                "findings": [finding.to_json() for finding in report.findings],
            }
        )
        return 1 if report.errors else 0
    report.show(terminal)
    if not report.errors:
        terminal.message("note", f"{file} is valid: {document['name']} {document['version']}")
    return 1 if report.errors else 0


def _compare(document: dict[str, Any], project: Project, file: str, report: Report) -> None:
    """Warn where a valid file does not fit the project beside it."""
    packages = [each for each in document.get("packages", ()) if each["registryType"] == "pypi"]
    if not packages or not project.name:
        return
    check_ownership(project, document["name"], report)
    if project.version and document["version"] != project.version:
        text = f"{file} has the version {document['version']}, and the project {project.version}"
        report.warn(text, "run this without --check")
