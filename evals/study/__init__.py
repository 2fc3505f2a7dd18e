"""Where a score comes from: the same games told in different ways, and what each way changes.

A study is a number of runs of one player that differ in settings only (``conditions``). From their ledgers alone come the
paired effect of each setting and of two together (``effects``), the shares of variance (``variance``), and, where a game was
also played from its text twin, the split of lost games into seeing, planning and form (``split``).
"""
