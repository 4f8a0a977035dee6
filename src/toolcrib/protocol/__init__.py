"""The Model Context Protocol, both eras, without sockets.

`Engine.receive` reads one message. The outcome is a `Reply`, or a `PendingRequest` that the transport runs
and whose reply it sends.
"""

from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.engine import Engine, EngineSettings
from toolcrib.protocol.messages import Reply

__all__ = ["Engine", "EngineSettings", "Peer", "PendingRequest", "Reply"]
