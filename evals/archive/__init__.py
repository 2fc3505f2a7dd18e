"""Runs as static pages: the viewer's page with its data in script files, for a colleague without raycade.

The page reads no other file than by ``<script>``, because a browser that opens it from a disk allows nothing else. So each
file of data is a chunk (``chunks``): one call with base64 text, in which no text of a model can be markup or code. The
columns of the list (``columns``) are in one chunk; episodes (``episodes``) with their pictures (``pictures``) are in others,
which the page loads as they are opened.
"""
