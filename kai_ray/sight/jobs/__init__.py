"""Jobs as users see them, read from any API server: workloads, their gangs, their pods."""
