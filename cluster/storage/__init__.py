"""The run directory: plan, ledger parts, locks, provenance."""
