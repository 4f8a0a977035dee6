"""Limits on rate, concurrency, calls per day, time and size.

`limits` compiles the limits of a policy, `quota` applies them to calls. `Counters` of `toolcrib.state` count.
"""

from toolcrib.policy.quota.limits import CallLimits
from toolcrib.policy.quota.quota import Quota, Slot

__all__ = ["CallLimits", "Quota", "Slot"]
