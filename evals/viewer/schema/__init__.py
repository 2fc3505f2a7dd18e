"""What the viewer's page is given, by the server, by an export and by a report: one schema, of which the page's types are made.

``python -m evals.viewer.schema`` prints ``frontend/src/schema.ts``; a test compares the two, and real answers with these types.
"""

from typing import Final

VERSION: Final = 6
"""Raise it with every change of these types: a page refuses the files of another version."""
