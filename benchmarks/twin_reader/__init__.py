"""A player that sees no picture: it reads prompts, parses the text twins in them, and searches for the way to win.

Written without the twins' writers: only what a prompt says, and the games' rules, are known here.
"""
