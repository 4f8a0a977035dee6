"""What stands around calls: access, quota, audit, telemetry, each doing what `toolcrib.policy` says.

`guard` puts them together, in one order, for dispatch. Each part knows the policy and nothing of the others;
none of them knows the wire.
"""
