"""Turns a KidGym frame into pixels: the same pixels on every machine."""

from envs.kidgym.render.compose import render
from envs.kidgym.render.skins import check_skin, export_skin
from envs.kidgym.render.sprites import sprite

__all__ = ["check_skin", "export_skin", "render", "sprite"]
