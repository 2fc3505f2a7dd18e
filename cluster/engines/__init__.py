"""Engines: one file per kind of thing that completes chats."""
