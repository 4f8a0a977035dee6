"""Access control: rules, roles, scopes and conditions on arguments.

`Access.decide` says whether a principal may see and call a tool, `Decision.judge` whether a call with given
arguments is allowed. The list and the call use the same decision, so they cannot differ.
"""

from toolcrib.policy.access.access import Access, Confirm, Decision, Judgement

__all__ = ["Access", "Confirm", "Decision", "Judgement"]
