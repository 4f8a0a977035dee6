"""The Model Context Protocol, both eras, without a socket: bytes and facts about the peer go in, replies and
calls to be run come out.

`Engine.receive` reads one message. What can be answered at once is a `Reply`; what has to run is an
`Exchange`, which the transport runs and whose reply it sends.
"""

from toolcrib.protocol.calls import Exchange, Link
from toolcrib.protocol.engine import Engine
from toolcrib.protocol.messages import Reply

__all__ = ["Engine", "Exchange", "Link", "Reply"]
