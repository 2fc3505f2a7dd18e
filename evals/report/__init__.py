"""What is made of a run's tables, figures and episodes for people: HTML, LaTeX, and figures as SVG, PDF and PNG."""
