"""Who calls over HTTP: API keys, tokens of authorization servers, and what those are told who have neither.

`Doorkeeper` is the door, `KeyFile` the file that `toolcrib keys` keeps. Knows credentials; refuses to know
tools, rules and the wire.
"""

from toolcrib.context import ANONYMOUS
from toolcrib.policy.auth.api_keys import Key, KeyFile
from toolcrib.policy.auth.authenticator import Doorkeeper, Pass, Refused

__all__ = ["ANONYMOUS", "Doorkeeper", "Key", "KeyFile", "Pass", "Refused"]
