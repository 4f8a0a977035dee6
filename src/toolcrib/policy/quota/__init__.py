"""Quotas: rate, concurrency, daily budget and size limits, counted exactly.

`Quota.enter` admits a call and returns its `Slot`, or refuses it and says when to try again. `limits`
compiles the limits of a policy, and `ledger` decides who is admitted and counts calls of one process;
`sqlite_store` counts those of all processes that share a file.
"""

from toolcrib.policy.quota.ledger import Slot
from toolcrib.policy.quota.limits import CallLimits
from toolcrib.policy.quota.quota import Quota, QuotaMiddleware

__all__ = ["CallLimits", "Quota", "QuotaMiddleware", "Slot"]
