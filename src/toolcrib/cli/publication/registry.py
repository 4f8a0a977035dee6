"""The `server.json` of the MCP registry: made from a project, and checked.

`SCHEMA` has the rules of the published schema of 2025-12-11 in our own words, with some that the registry
enforces when a server is published: no version ranges, a version for a PyPI package, a hash for an MCPB file,
remotes that others can reach. What is valid here is valid there. Unknown keys, which the registry ignores,
are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolcrib.cli.publication.project import Project, Report, describe_file, forge_of, owner_of, place_of
from toolcrib.config import VariableConfig
from toolcrib.errors import suggest
from toolcrib.validation.validator import Problem, Validator

SCHEMA_URL = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
FILE_NAME = "server.json"
PYPI = "https://pypi.org"
MAX_DESCRIPTION = 100
NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_REPOSITORIES = "the registry accepts https://github.com/OWNER/NAME and https://gitlab.com/OWNER/NAME"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_LOOPBACK = re.compile(
    r"(?:localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0|.*\.local(?:host)?)", re.IGNORECASE
)

# --- the schema --------------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_FILLED = {"type": "string", "minLength": 1}
_URI = {"type": "string", "format": "uri"}
_VERSION = {"type": "string", "minLength": 1, "maxLength": 255}
_RANGE = re.compile(r"latest|[\^~<>=].*|.*(?:\|\||\s|\*).*|(?:.*\.)?x(?:\..*)?", re.IGNORECASE)
"""Versions that name several, which the registry refuses."""


def _table(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/definitions/{name}"}}


def _where(key: str, value: str, then: Mapping[str, Any], otherwise: Mapping[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then, "else": otherwise}


_INPUT: dict[str, Any] = {
    "description": _TEXT,
    "isRequired": _FLAG,
    "isSecret": _FLAG,
    "format": {"enum": ["string", "number", "boolean", "filepath"]},
    "value": _TEXT,
    "default": _TEXT,
    "placeholder": _TEXT,
    "choices": {"type": "array", "items": _TEXT},
}
_VARIABLES = {"type": "object", "additionalProperties": {"$ref": "#/definitions/Input"}}
_WITH_VARIABLES = {**_INPUT, "variables": _VARIABLES}
_HTTP = {"url": _FILLED, "headers": _list("NamedInput")}
_SERVER = {
    "$schema": _URI,
    "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": f"^{NAME.pattern}$"},
    "title": {"type": "string", "minLength": 1, "maxLength": 100},
    "description": {"type": "string", "minLength": 1, "maxLength": MAX_DESCRIPTION},
    "version": _VERSION,
    "websiteUrl": _URI,
    "repository": _table({"url": _URI, "source": _TEXT, "id": _TEXT, "subfolder": _TEXT}, "url", "source"),
    "icons": _list("Icon"),
    "packages": _list("Package"),
    "remotes": _list("Remote"),
    "_meta": _table({"io.modelcontextprotocol.registry/publisher-provided": {"type": "object"}}),
}
_ARGUMENT = {
    "type": {"enum": ["positional", "named"]},
    "name": _TEXT,
    "valueHint": _TEXT,
    "isRepeated": _FLAG,
    **_WITH_VARIABLES,
}
_ICON = {
    "src": {**_URI, "maxLength": 255},
    "mimeType": {"enum": ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"]},
    "sizes": {"type": "array", "items": {"type": "string", "pattern": r"^([0-9]+x[0-9]+|any)$"}},
    "theme": {"enum": ["light", "dark"]},
}
_PACKAGE = {
    "registryType": {"enum": ["npm", "pypi", "oci", "nuget", "mcpb"]},
    "registryBaseUrl": _URI,
    "identifier": _FILLED,
    "version": _VERSION,
    "fileSha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
    "runtimeHint": _TEXT,
    "runtimeArguments": _list("Argument"),
    "packageArguments": _list("Argument"),
    "environmentVariables": _list("NamedInput"),
    "transport": {"$ref": "#/definitions/Transport"},
}
_VERSIONED = ("npm", "pypi", "nuget")
_VALUED = {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]}

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **_table(_SERVER, "name", "description", "version"),
    "definitions": {
        "Input": _table(_INPUT),
        "NamedInput": _table({"name": _TEXT, **_WITH_VARIABLES}, "name"),
        "Argument": {**_table(_ARGUMENT, "type"), **_where("type", "named", {"required": ["name"]}, _VALUED)},
        "Transport": {
            **_table({"type": {"enum": ["stdio", "streamable-http", "sse"]}, **_HTTP}, "type"),
            **_where("type", "stdio", {}, {"required": ["url"]}),
        },
        "Remote": _table(
            {"type": {"enum": ["streamable-http", "sse"]}, **_HTTP, "variables": _VARIABLES}, "type", "url"
        ),
        "Icon": _table(_ICON, "src"),
        "Package": {
            **_table(_PACKAGE, "registryType", "identifier", "transport"),
            "allOf": [
                _where("registryType", "mcpb", {"required": ["fileSha256"]}, {}),
                *(_where("registryType", kind, {"required": ["version"]}, {}) for kind in _VERSIONED),
            ],
        },
    },
}


def check_document(document: Any, report: Report, file: str = FILE_NAME) -> None:
    """Report what the registry would not accept as errors, and what it would ignore as warnings."""
    validator = Validator(SCHEMA, trusted=True)
    if not validator.is_valid(document):
        for problem in validator.problems(document) or [Problem("", "must be a server.json", "")]:
            report.error(str(problem), file=file)
        return
    for path, key, known in _find_unknown(document, SCHEMA, ""):
        report.warn(f"unknown key {path + key!r}, which the registry ignores", suggest(key, known), file)
    if document.get("$schema") != SCHEMA_URL:
        report.warn("'$schema' is not that of 2025-12-11", f'write "$schema": "{SCHEMA_URL}"', file)
    packages = document.get("packages", [])
    if not packages and not document.get("remotes"):
        report.error("there are neither packages nor remotes to connect to", "add one of them", file)
    versions = {f"packages[{at}].version": each.get("version") for at, each in enumerate(packages)}
    for path, version in {"version": document["version"], **versions}.items():
        if version is not None and _RANGE.fullmatch(version):
            report.error(f"'{path}': must be one version, not a range, got {version!r}", "write 1.2.3", file)
    for number, remote in enumerate(document.get("remotes", ())):
        for message in _find_remote_problems(remote):
            report.error(f"'remotes[{number}].url': {message}", file=file)
    for number, package in enumerate(packages):
        base = package.get("registryBaseUrl")
        if package["registryType"] == "pypi" and base not in (None, PYPI):
            report.error(f"'packages[{number}].registryBaseUrl': must be {PYPI}, got {base}", file=file)
    repository = document.get("repository")
    if repository and repository["source"] != forge_of(repository["url"]):
        text = f"'repository': the source {repository['source']!r} does not match {repository['url']}"
        report.error(text, _REPOSITORIES, file)


def _find_remote_problems(remote: Mapping[str, Any]) -> Iterator[str]:
    url = remote["url"]
    defined = remote.get("variables", {})
    for name in _PLACEHOLDER.findall(url):
        if name not in defined:
            yield f"the variable {{{name}}} is not in 'variables'"
    try:
        parts = urlsplit(_PLACEHOLDER.sub("x", url))
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host:
        yield f"must be a URL such as https://shop.example.com/mcp, got {url}"
    elif _LOOPBACK.fullmatch(host):
        yield f"{host} is this machine; a remote must be reachable by others"


def _find_unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the path, the key and the known keys for every key that the schema does not name."""
    if reference := schema.get("$ref"):
        schema = SCHEMA["definitions"][reference.rpartition("/")[2]]
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_unknown(item, schema.get("items", {}), f"{path[:-1]}[{number}].")
    elif isinstance(value, Mapping) and "properties" in schema:
        for key, item in value.items():
            if key in schema["properties"]:
                yield from _find_unknown(item, schema["properties"][key], f"{path}{key}.")
            else:
                yield path, key, list(schema["properties"])


# --- from a project ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What the options of `toolcrib publish` add to the files of a project."""

    name: str | None = None
    description: str | None = None
    version: str | None = None
    repository: str | None = None
    transport: str = "stdio"
    package: bool = True
    remotes: Sequence[str] = ()
    headers: Sequence[str] = ()
    arguments: Sequence[str] = ()
    variables: Sequence[VariableConfig] = ()


def make_document(
    project: Project, options: PublishOptions, old: Mapping[str, Any], report: Report
) -> dict[str, Any]:
    """Return the `server.json` of a project; what is missing is reported. Keys of the old document that are
    not made here are kept: icons, remotes, packages of other kinds."""
    version = _find_version(project, options, report)
    repository = _find_repository(project, options, report)
    packages = [_make_package(project, options, version, old, report)] if options.package else []
    packages += [each for each in old.get("packages", ()) if each.get("registryType") != "pypi"]
    remotes = [_make_remote(url, project, options, report) for url in options.remotes] or old.get(
        "remotes", []
    )
    made: dict[str, Any] = {
        "$schema": SCHEMA_URL,
        "name": _find_name(project, options, repository, old, report),
        "title": project.config.title or old.get("title"),
        "description": _find_description(project, options, report),
        "version": version,
        "repository": repository or old.get("repository"),
        "websiteUrl": project.website or old.get("websiteUrl"),
        "packages": packages,
        "remotes": remotes,
    }
    made = {key: value for key, value in made.items() if value}
    return {
        **made,
        **{key: value for key, value in old.items() if key not in made and key in ("icons", "_meta")},
    }


def _find_name(
    project: Project,
    options: PublishOptions,
    repository: Mapping[str, str] | None,
    old: Mapping[str, Any],
    report: Report,
) -> str:
    readme = project.read_readme()
    found = re.search(rf"mcp-name: ({NAME.pattern})", readme[1]) if readme else None
    name = options.name or project.config.publish.name or (found[1] if found else None) or old.get("name")
    if name is None and repository and repository["source"] == "github":
        owner, folder = owner_of(repository["url"])
        name = f"io.github.{owner}/{project.name or folder}"
    if name is None:
        hint = (
            "use --name io.github.OWNER/NAME for an account of GitHub, --name com.example/NAME for a domain, "
            "or write name under [publish] in toolcrib.toml"
        )
        report.error("The server has no name for the registry", hint)
    elif not NAME.fullmatch(name) or "." not in name.partition("/")[0]:
        hint = "use a domain in reverse order, a slash and a name: io.github.ana/shop"
        report.error(f"Invalid name for the registry: {name!r}", hint)
    return name or ""


def _find_description(project: Project, options: PublishOptions, report: Report) -> str:
    text = options.description or project.config.publish.description or project.text("description")
    if not text:
        hint = f"write {place_of(project, 'description')}, or use --description TEXT"
        report.error("The server has no description", hint)
    elif len(text) > MAX_DESCRIPTION:
        hint = (
            "write a shorter one as description under [publish] in toolcrib.toml, or use --description TEXT"
        )
        limit = f"the registry allows {MAX_DESCRIPTION}"
        report.error(f"The description has {len(text)} characters, and {limit}: {text!r}", hint)
    return text or ""


def _find_version(project: Project, options: PublishOptions, report: Report) -> str:
    version = options.version or project.version or (None if options.package else project.config.version)
    place = describe_file(project.pyproject)
    if not version and not (options.package and project.pyproject is None):  # that is reported already
        is_dynamic = "version" in project.table.get("dynamic", ())
        reason = ": it is dynamic, and the package is not installed here" if is_dynamic else ""
        hint = (
            "use --version 1.2.3"
            if is_dynamic
            else f"write {place_of(project, 'version')}, or use --version 1.2.3"
        )
        report.error(f"The version is unknown{reason}", hint)
    served = project.config.version
    if version and served and served != version:
        hint = f"remove version under [server], or make it {version}"
        report.warn(
            f"toolcrib.toml tells clients that the version is {served}, and {place} says {version}", hint
        )
    return version or ""


def _find_repository(project: Project, options: PublishOptions, report: Report) -> dict[str, str] | None:
    url = options.repository or project.repository
    if url is None:
        hint = f"write {place_of(project, 'repository')}, or use --repository https://github.com/OWNER/NAME"
        if project.pyproject is not None:
            place = describe_file(project.pyproject)
            hint = f'add Repository = "https://github.com/OWNER/NAME" under [project.urls] in {place}'
        report.warn("No repository is named: users cannot look at the source", hint)
        return None
    url = url.removeprefix("git+")
    source = forge_of(url)
    if source is None:
        report.warn(f"The repository is left out: {url}", _REPOSITORIES)
        return None
    host = urlsplit(url).hostname
    found = {"url": f"https://{host}/{'/'.join(owner_of(url))}", "source": source}
    tops = [folder for folder in (project.root, *project.root.parents) if (folder / ".git").exists()]
    if tops and tops[0] != project.root:
        found["subfolder"] = project.root.relative_to(tops[0]).as_posix()
    return found


def _normalize(name: str) -> str:
    """Return the name of a package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _make_package(
    project: Project, options: PublishOptions, version: str, old: Mapping[str, Any], report: Report
) -> dict[str, Any]:
    """Return the PyPI package, which clients start with `uvx NAME`."""
    remote = "for a server that only runs at a URL, use --remote URL --no-package"
    if project.pyproject is None or not project.name:
        missing = (
            "No pyproject.toml"
            if project.pyproject is None
            else f"No name in {describe_file(project.pyproject)}"
        )
        report.error(
            f"{missing}: which PyPI package has the server?", f"write one with a [project] table; {remote}"
        )
        return {}
    scripts = [name for name in project.scripts if _normalize(name) == _normalize(project.name)]
    if not scripts:
        others = f"; there are {', '.join(project.scripts)}" if project.scripts else ""
        place = describe_file(project.pyproject)
        hint = (
            f'add {project.name} = "MODULE:FUNCTION" under [project.scripts] in {place}, where the function '
            f"calls server.run(); {remote}"
        )
        report.error(
            f"The package has no command '{project.name}', which `uvx {project.name}` starts{others}", hint
        )
    transport: dict[str, Any] = {"type": options.transport}
    if options.transport != "stdio":
        http = project.config.http
        transport["url"] = f"http://127.0.0.1:{http.port or 8000}{http.path or '/mcp'}"
    identifier = scripts[0] if scripts else project.name
    same = [each for each in old.get("packages", ()) if each.get("identifier") == identifier]
    package: dict[str, Any] = {
        "registryType": "pypi",
        "registryBaseUrl": PYPI,
        "identifier": identifier,
        "version": version,
        "runtimeHint": "uvx",
        "transport": transport,
        "packageArguments": [_make_argument(word) for word in options.arguments],
        "environmentVariables": [_make_variable(each) for each in options.variables],
    }
    made = {key: value for key, value in package.items() if value}
    return {**made, **{key: value for key, value in (same[0] if same else {}).items() if key not in made}}


def _make_argument(word: str) -> dict[str, Any]:
    name, equals, value = word.partition("=")
    is_named = word.startswith("-") and bool(equals)
    argument: dict[str, Any] = {"type": "named", "name": name} if is_named else {"type": "positional"}
    argument["value"] = value if is_named else word
    return {**argument, **_variables_in(argument["value"], secret=False)}


def _make_variable(variable: VariableConfig) -> dict[str, Any]:
    made = {
        "name": variable.name,
        "description": variable.description,
        "isRequired": variable.required,
        "isSecret": variable.secret,
        "format": None if variable.format == "string" else variable.format,
        "default": variable.default,
        "choices": list(variable.choices),
    }
    return {key: value for key, value in made.items() if value not in (None, False, [])}


def _variables_in(text: str, *, secret: bool) -> dict[str, Any]:
    names = dict.fromkeys(_PLACEHOLDER.findall(text))
    facts = {"isRequired": True, **({"isSecret": True} if secret else {})}
    return {"variables": {name: dict(facts) for name in names}} if names else {}


def _make_remote(url: str, project: Project, options: PublishOptions, report: Report) -> dict[str, Any]:
    """Return a remote; headers without a value, and variables in `{braces}`, are asked for by clients."""
    headers = [_make_header(text, report) for text in options.headers]
    policy = project.config.policy
    if not headers and policy is not None and policy.auth is not None and policy.auth.keys is not None:
        headers = [_make_header("Authorization: Bearer {api_key}", report)]
    if urlsplit(url).scheme == "http":
        report.warn(f"{url} is not encrypted", "use an https URL: keys and arguments are sent to it")
    if urlsplit(url).path in ("", "/"):
        report.warn(f"{url} has no path", "toolcrib serve uses /mcp")
    remote: dict[str, Any] = {"type": "streamable-http", "url": url, **_variables_in(url, secret=False)}
    return {**remote, **({"headers": headers} if headers else {})}


def _make_header(text: str, report: Report) -> dict[str, Any]:
    name, _, value = (part.strip() for part in text.partition(":"))
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        report.error(
            f"Invalid header {text!r}", "use --header 'Authorization: Bearer {token}' or --header X-Api-Key"
        )
    if not value:
        return {"name": name, "isRequired": True, "isSecret": True}
    variables = _variables_in(value, secret=True)
    is_secret = name.lower() in ("authorization", "cookie", "x-api-key", "api-key")
    if is_secret and not variables:
        hint = "let clients ask for it: --header 'Authorization: Bearer {token}'"
        report.error(f"The value of the header {name} would be published", hint)
    facts = {"isRequired": True, "isSecret": True} if variables else {}
    return {"name": name, "value": value, **facts, **variables}


# --- ownership ---------------------------------------------------------------------------------------


def check_ownership(project: Project, name: str, report: Report) -> None:
    """Warn where PyPI's page of the package would not show that it belongs to the server."""
    readme = project.read_readme()
    line = f"<!-- mcp-name: {name} -->"
    reason = "the registry looks for it on the PyPI page of the package, to see who owns it"
    if readme is None:
        hint = f'{reason}: add README.md with this line, and readme = "README.md" under [project]:\n{line}'
        report.warn("The package has no README", hint)
    elif not re.search(rf"mcp-name: {re.escape(name)}(?![\w./-])", readme[1]):
        other = re.search(rf"mcp-name: ({NAME.pattern})", readme[1])
        text = f"{readme[0]} has no line with 'mcp-name: {name}'"
        report.warn(
            f"{text}, but one with {other[1]}" if other else text, f"{reason}: add this line:\n{line}"
        )
