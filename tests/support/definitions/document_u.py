"""The applications of document U, and the JSON it expects of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcrib import APIApplication

CREATE_ISSUE = {
    "name": "create_issue",
    "description": "Create a new GitHub issue",
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "The issue title"},
            "body": {"type": "string", "description": "The issue description"},
            "labels": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Optional list of label names",
            },
        },
        "required": ["title", "body"],
    },
}
GET_WEATHER = {
    "name": "get_weather",
    "description": "Get current weather for a city",
    "inputSchema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": 'City name (e.g., "London", "New York")'},
            "units": {
                "type": "string",
                "enum": ["metric", "imperial"],
                "description": "Temperature units (metric for Celsius, imperial for Fahrenheit)",
                "default": "metric",
            },
            "include_forecast": {
                "type": "boolean",
                "description": "Whether to include 5-day forecast",
                "default": False,
            },
        },
        "required": ["city"],
    },
}
GOOGLE = """Create a new GitHub issue.

    Args:
        title: The issue title
        body: The issue description

    Returns:
        The created issue data
    """
NUMPY = """Create a new GitHub issue.

    Parameters
    ----------
    title : str
        The issue title
    body : str
        The issue description

    Returns
    -------
    dict
        The created issue data
    """
REST = """Create a new GitHub issue.

    :param title: The issue title
    :param body: The issue description
    :return: The created issue data
    """


class GitHubApp(APIApplication):
    def list_tools(self) -> list[Callable]:
        return [self.create_issue, self.list_issues, self.create_pull_request]

    def create_issue(self, title: str, body: str, labels: list[str] | None = None) -> dict:
        """Create a new GitHub issue.

        Args:
            title: The issue title
            body: The issue description
            labels: Optional list of label names

        Returns:
            The created issue data including number and URL
        """
        return {"number": 7, "title": title, "body": body, "labels": labels}

    def list_issues(self) -> list[dict]:
        """List all issues."""
        return []

    def create_pull_request(self, title: str) -> dict:
        """Create a pull request."""
        return {"title": title}


class SlackApp(APIApplication):
    def list_tools(self) -> list[Callable]:
        return [self.send_message, self.list_channels]

    def send_message(self, text: str) -> None:
        """Send a message to a channel."""

    def list_channels(self) -> list[str]:
        """List all channels."""
        return []


class JiraApp(APIApplication):
    def list_tools(self) -> list[Callable]:
        return [self.create_issue]

    def create_issue(self, title: str) -> dict:
        """Create a new Jira issue."""
        return {"title": title}


class RenamingApp(GitHubApp):
    """An application as in document U."""

    def list_tools(self) -> list[Callable]:
        tools = [self.create_issue, self.list_issues]
        # Add namespace prefix
        for tool in tools:
            tool.__name__ = f"github_{tool.__name__}"
        return tools


def create_issue(title: str, body: str, labels: list[str] | None = None) -> dict:
    """Create a new GitHub issue.

    Args:
        title: The issue title
        body: The issue description
        labels: Optional list of label names
    """
    return {"title": title, "body": body, "labels": labels}


def without_output(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the three keys of document U, without the output schema."""
    return {key: value for key, value in definition.items() if key != "outputSchema"}
