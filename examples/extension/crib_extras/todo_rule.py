"""A lint rule: descriptions that contain a TODO."""

from toolcrib.catalog.lint import Problem, Rule


def find_todo(tool):
    if "TODO" in tool.description:
        yield Problem(f"The description of '{tool.name}' contains a TODO")


RULE = Rule("todo", "advice", "A description contains a TODO", "Models read it.", "finish it", find_todo)
