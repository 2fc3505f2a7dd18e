"""Studies with people: participants play, or judge, the games of a suite on a page of their own.

A study is a folder (``study``). What participants choose is appended to a file for each (``journal``) before the page is
answered, so that nothing is lost whatever dies; everything else is computed from these files: where a participant stands
(``seat``), the records of the games (``records``), agreement and tables (``agreement``, ``tables``).
"""
