"""Functions documented with reStructuredText fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from bench.samples.models import Address, Priority, Severity


def read_file(path: str, encoding: str = "utf-8", max_bytes: int = 65536) -> str:
    """Read a text file of the workspace.

    Longer files are cut; the last line then says so.

    :param path: Path below the root of the workspace.
    :param encoding: How the bytes are to be read.
    :param max_bytes: Where to cut.
    :returns: The text.
    :raises FileNotFoundError: If there is no such file.
    :raises PermissionError: If the path leads out of the workspace.
    """
    raise NotImplementedError


def write_file(path: str, text: str, append: bool = False) -> int:
    """Write a text file of the workspace.

    .. warning:: An existing file is replaced without asking unless ``append`` is set.

    :param path: Path below the root of the workspace; folders are made as needed.
    :param text: What to write.
    :param append: Add to the end instead of replacing.
    :returns: How many bytes the file has now.
    """
    raise NotImplementedError


def list_folder(path: str = ".", pattern: str = "*", recursive: bool = False) -> list[str]:
    """List the files of a folder.

    :param path: The folder.
    :param pattern: Shell pattern the names must match.
    :param recursive: Whether to go down into subfolders.
    :returns: Paths relative to the folder, sorted.
    """
    raise NotImplementedError


def move_file(source: Path, target: Path, overwrite: bool = False) -> None:
    """Move or rename a file.

    :param source: What to move.
    :type source: Path
    :param target: Where it goes.
    :type target: Path
    :param overwrite: Whether an existing target may be lost.
    :type overwrite: bool
    :raises FileExistsError: If the target exists and must be kept.
    """
    raise NotImplementedError


def search_text(pattern: str, glob: str = "**/*.py", ignore_case: bool = False) -> list[dict[str, Any]]:
    """Search the files of the workspace with a regular expression.

    :param pattern: The expression, in the dialect of RE2.
    :param glob: Which files to look into.
    :param ignore_case: Whether upper and lower case are the same.
    :returns: File, line number and line of each hit.

    .. note:: Binary files and anything that git ignores are skipped.
    """
    raise NotImplementedError


def run_tests(
    paths: list[str] | None = None, keyword: str | None = None, verbose: bool = False
) -> dict[str, int]:
    """Run the tests of the project.

    :param paths: Files or folders; all tests if missing.
    :param keyword: Only tests whose name contains it.
    :param verbose: Whether to name every test.
    :returns: How many passed, failed and were skipped.
    :raises TimeoutError: If they take longer than ten minutes.

    Example::

        run_tests(["tests/unit"], keyword="login")
    """
    raise NotImplementedError


def git_log(ref: str = "HEAD", limit: int = 20, author: str | None = None) -> list[dict[str, str]]:
    """Show the history of the repository.

    :param ref: Branch, tag or commit to begin at.
    :param limit: How many commits at most.
    :param author: Only commits of this person.
    :return: Hash, author, date and subject, newest first.
    """
    raise NotImplementedError


def create_branch(name: str, base: str = "main") -> str:
    """Create a branch.

    :param str name: Name of the branch, with slashes if you like.
    :param str base: Where it starts.
    :return: The commit it points to.
    :rtype: str
    """
    raise NotImplementedError


def open_pull_request(
    title: str, body: str, head: str, labels: list[str] | None = None, draft: bool = False
) -> dict[str, Any]:
    """Propose a change for review.

    The checks start by themselves. Reviewers are chosen by the owners file.

    :param title: One line in the imperative.
    :param body: Why the change is needed.
    :param head: Branch with the change.
    :param labels: Labels to attach; unknown ones are created.
    :param draft: Whether it is not ready yet.
    :returns: Number and address of the pull request.
    :raises ValueError: If the branch has nothing new.
    """
    raise NotImplementedError


def deploy(service: str, version: str, environment: Literal["staging", "production"] = "staging") -> UUID:
    """Roll out a version of a service.

    :param service: Name of the service.
    :param version: A tag that has been built.
    :param environment: Where to.
    :returns: Identifier of the deployment, for `deployment_status`.

    .. important:: Production asks two people for approval; the call returns before they answer.
    """
    raise NotImplementedError


def deployment_status(deployment: UUID) -> Literal["waiting", "running", "done", "failed"]:
    """Ask how far a deployment is.

    :param deployment: What `deploy` returned.
    :returns: The state right now.
    """
    raise NotImplementedError


def restart_service(service: str, instances: set[str] | None = None, drain_s: float = 30.0) -> int:
    """Restart a service, one instance after the other.

    :param service: Name of the service.
    :param instances: Which instances; all of them if missing.
    :param drain_s: Seconds that running requests are given to end.
    :returns: How many instances were restarted.
    """
    raise NotImplementedError


def tail_log(
    service: str, lines: int = 100, level: Literal["debug", "info", "warning", "error"] = "info"
) -> list[str]:
    """Show the latest log lines of a service.

    :param service: Name of the service.
    :param lines: How many lines, a thousand at most.
    :param level: Leave out anything less serious.
    :returns: The lines, oldest first.
    """
    raise NotImplementedError


def set_reminder(text: str, at: str, priority: Priority = Priority.NORMAL) -> None:
    """Remind the user of something.

    :param text: What to say.
    :param at: When, as ISO 8601; a time without a day means the next such time.
    :param priority: Urgent ones ring until somebody reacts.
    """
    raise NotImplementedError


def open_incident(title: str, severity: Severity, services: list[str], lead: str | None = None) -> int:
    """Declare an incident.

    Everybody on call is paged at once, at night too.

    :param title: What users notice.
    :param severity: One pages the management as well.
    :param services: Which services suffer.
    :param lead: Who takes the lead; the first to answer otherwise.
    :returns: Number of the incident.
    """
    raise NotImplementedError


def validate_address(address: Address, strict: bool = False) -> tuple[bool, str]:
    """Check that a parcel can be delivered.

    :param address: The address in question.
    :param strict: Whether a misspelt street is an error.
    :returns: The verdict, and the reason in words.
    """
    raise NotImplementedError


async def fetch_page(url: str, selector: str | None = None, timeout_s: float = 10.0) -> str:
    """Fetch a web page and turn it into Markdown.

    :param url: Address of the page, https only.
    :param selector: CSS selector of the part that matters.
    :param timeout_s: Seconds to wait for the server.
    :returns: The text with its links.
    :raises ConnectionError: If the server cannot be reached.

    .. seealso:: `search_web` when the address is not known.
    """
    raise NotImplementedError
