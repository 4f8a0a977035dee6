"""Stands for a package that is not installed."""

from abc import ABC, abstractmethod


class BaseApplication(ABC):
    def __init__(self, name: str, **kwargs) -> None:
        self.name = name

    @abstractmethod
    def list_tools(self): ...


class APIApplication(BaseApplication):
    def __init__(self, name: str, integration=None, **kwargs) -> None:
        super().__init__(name, **kwargs)
        self.integration = integration
