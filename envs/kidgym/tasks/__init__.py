"""The twelve tasks, one file each, in the order of the paper's tables: six primary ones and six that combine them."""

from envs.kidgym.tasks.classification import Classification
from envs.kidgym.tasks.counting import Counting
from envs.kidgym.tasks.decode_maze import DecodeMaze
from envs.kidgym.tasks.filling import Filling
from envs.kidgym.tasks.maze import Maze
from envs.kidgym.tasks.memory_decode import MemoryDecode
from envs.kidgym.tasks.memory_filling import MemoryFilling
from envs.kidgym.tasks.memory_maze import MemoryMaze
from envs.kidgym.tasks.placement import Placement
from envs.kidgym.tasks.puzzle import Puzzle
from envs.kidgym.tasks.selection import Selection
from envs.kidgym.tasks.sorting import Sorting

ALL_TASKS = (
    Classification,
    Selection,
    Sorting,
    Maze,
    Filling,
    Puzzle,
    Placement,
    Counting,
    DecodeMaze,
    MemoryMaze,
    MemoryDecode,
    MemoryFilling,
)

__all__ = ["ALL_TASKS", *(task.__name__ for task in ALL_TASKS)]
