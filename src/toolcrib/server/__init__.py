"""MCPServer: the settings, registration, life cycle and transports of a server."""

from toolcrib.server.server import MCPServer
from toolcrib.server.settings import ServerSettings, SettingFields

__all__ = ["MCPServer", "ServerSettings", "SettingFields"]
