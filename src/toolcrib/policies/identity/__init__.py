"""Who calls over HTTP: API keys, tokens of authorization servers, and what those are told who have neither.

`Doorkeeper` is the door, `KeyFile` the file that `toolcrib keys` keeps. Knows credentials; refuses to know
tools, rules and the wire.
"""

from toolcrib.context import ANONYMOUS
from toolcrib.policies.identity.doorkeeper import Doorkeeper, Pass
from toolcrib.policies.identity.keys import Key, KeyFile
from toolcrib.policies.identity.refusing import Refused

__all__ = ["ANONYMOUS", "Doorkeeper", "Key", "KeyFile", "Pass", "Refused"]
