"""What runs of KUMO tell about domains, structure and other benchmarks (paper, Figures 3, 4c to 4e and 6)."""
