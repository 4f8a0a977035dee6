"""Policy around calls: access rules, quotas, audit and telemetry.

from toolcrib.policy import Limit, Policy, Rule
"""

from toolcrib.config.settings import Audit, Auth, Fleet, Limit, OAuth, Outage, Policy, Rule, Tasks, Telemetry

__all__ = ["Audit", "Auth", "Fleet", "Limit", "OAuth", "Outage", "Policy", "Rule", "Tasks", "Telemetry"]
