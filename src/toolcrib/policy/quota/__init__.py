"""How much: rates, places, budgets and sizes, counted exactly, in memory or in a file that workers share.

`Quota` is the door: `enter` lets a call in and gives its `Slot`, or refuses it and says when to try again.

- `terms` makes limits into what one call needs; `refusal` says no in words and figures
- `ledger` decides, once for both stores; `day` knows when a budget begins anew
- `memory` counts for this process, `sqlite` for all that share a file; `store` is what both promise

Knows limits, clocks and counts; refuses to know rules, results and the wire.
"""

from toolcrib.policy.quota.limits import Demand
from toolcrib.policy.quota.quota import Quota
from toolcrib.policy.quota.store import Slot

__all__ = ["Demand", "Quota", "Slot"]
