"""A local web app that shows the episodes of runs; it reads plans and ledgers and knows no Ray."""
