"""The public names of raycade: ``raycade.suite``, ``raycade.engine`` and ``raycade.testing``.

Packages of others import from here. A name that is listed in ``__all__`` of one of these modules keeps its meaning within a
minor version; before it is removed or changed, one minor version warns about its use (``DeprecationWarning``) and the
change log names what to use instead. Where a name is defined may change at any time.
"""
