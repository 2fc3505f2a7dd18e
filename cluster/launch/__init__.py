"""Starting on Slurm and joining nodes to one Ray cluster."""
