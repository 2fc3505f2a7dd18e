"""The ledger: one row per episode in immutable Parquet parts, checked against the plan whenever it is read."""

from evals.ledger.ledger import Ledger, open_ledger

__all__ = ["Ledger", "open_ledger"]
