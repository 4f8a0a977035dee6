"""Stands for a library whose tools are not for MCP."""


class OtherTool:
    def __init__(self, function, **options) -> None:
        self.name = function.__name__
        self.description = function.__doc__
        self.function = function


def tool(*names, **options):
    if names and callable(names[0]):
        return OtherTool(names[0])
    return lambda function: OtherTool(function, **options)
