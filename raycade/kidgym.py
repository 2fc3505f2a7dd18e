"""What a KidGym task is made of (docs/kidgym_new_task.md)."""

from envs.kidgym import Action, Item, World, register_task
from envs.kidgym.testing import check_task

__all__ = ["Action", "Item", "World", "check_task", "register_task"]
