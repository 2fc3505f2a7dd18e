"""Looks at machines before a run does: what is broken, what that would break, and how to mend it."""
