"""Authentication over HTTP: API keys, tokens of authorization servers, and challenges for those without."""

from toolcrib.context import ANONYMOUS
from toolcrib.policy.auth.api_keys import KeyFile
from toolcrib.policy.auth.authenticator import Authenticator, Credential, Rejection

__all__ = ["ANONYMOUS", "Authenticator", "Credential", "KeyFile", "Rejection"]
