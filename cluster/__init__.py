"""Execution: replicas, runners, router, driver, ledger, tracker and the command line."""
