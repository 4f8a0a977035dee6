"""Audit log: one record per call, hash-chained and sealed with checkpoints.

`AuditLog` writes it, `open_log` reads and verifies it.
"""

from toolcrib.policy.audit.log import AuditLog
from toolcrib.policy.audit.reader import AuditReader, Problem, Verdict, open_log

__all__ = ["AuditLog", "AuditReader", "Problem", "Verdict", "open_log"]
