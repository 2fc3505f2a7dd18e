"""Programs as players: `raycade serve` offers the episodes of a plan over HTTP and MCP, into a run directory like any other.

    agent       a player that is a program: its name and version in a configuration, and thereby in the ids
    games       who plays which episode, turn by turn; duplicate requests, games that are left or given back
    commits     finished episodes into the ledger, durable before their client hears of it
    taken       what a program may send
    shown       what a program sees, and nothing else
    web         the HTTP interface, behind a token
    tools       the MCP interface
    host        serves one of them until all is played or a stop signal arrives

No client sees a seed, the oracle, a shortcut or a score; whether a game was won only if the run says so (``feedback``).
"""
