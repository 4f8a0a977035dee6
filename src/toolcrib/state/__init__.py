"""Everything that outlives a call or is shared between processes, behind six small contracts."""
