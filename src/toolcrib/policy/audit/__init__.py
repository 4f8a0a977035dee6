"""On the record: one line for every call, chained to the one before, sealed from time to time.

`AuditLog` writes it, `open_log` reads it. Knows records as data; refuses to know who decides about calls.
"""

from toolcrib.policy.audit.log import AuditLog
from toolcrib.policy.audit.reader import Reader, open_log
from toolcrib.policy.audit.verify import Problem, Verdict

__all__ = ["AuditLog", "Problem", "Reader", "Verdict", "open_log"]
