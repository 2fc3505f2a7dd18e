"""``raycade people``: studies with people, from a folder to a ledger (``evals.people`` knows how they are played)."""
