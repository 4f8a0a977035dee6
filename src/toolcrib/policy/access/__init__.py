"""May they: rules, roles, scopes and conditions on arguments, as one decision for a caller and a tool.

`Access` reads a policy's rules, `decide` says whether a caller has a tool at all, and `Decision.judge`
whether a call with these arguments may be. Seen and callable are the same decision, so they cannot differ.
Knows the policy, tools and callers; refuses to know how often somebody calls, what is recorded, and the wire.
"""

from toolcrib.policy.access.access import Access
from toolcrib.policy.access.decision import Confirm, Decision, Judgement

__all__ = ["Access", "Confirm", "Decision", "Judgement"]
