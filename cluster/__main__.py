"""``python -m cluster``: the same as ``raycade``."""

from cluster.cli import main

main()
