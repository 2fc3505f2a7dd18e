"""Each rule for picture tokens counts as the family's own processor in transformers does."""

import math

import pytest

from cluster.engines import torch_compat
from cluster.models.table import families

pytestmark = [pytest.mark.slow, pytest.mark.vllm]  # loads torch

SIZES = [(576, 576), (780, 1056), (1056, 780), (28, 28), (448, 896), (1920, 200), (333, 777), (1500, 1500)]

TILE = {"height": 448, "width": 448}


def processor(name):
    torch_compat.apply()
    import transformers

    return getattr(transformers, name)()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen2_5_vl", "Qwen2VLImageProcessor"),
        ("qwen3_vl", "Qwen2VLImageProcessor"),
        ("glm4v", "Glm4vImageProcessor"),
    ],
)
def test_grids(family, name, size):
    rule = families()[family].pictures
    bounds = {"min_pixels": rule.least, "max_pixels": rule.most, "patch_size": rule.cell // 2, "merge_size": 2}
    assert rule.tokens(*size) == processor(name).get_number_of_image_patches(size[1], size[0], bounds) / 4


def read(name, pixels, **more):
    import torch

    return processor(name)(torch.zeros(3, pixels[1], pixels[0], dtype=torch.uint8), return_tensors="pt", **more)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tiles(size):
    rule = families()["internvl"].pictures
    tiles = read("GotOcr2ImageProcessor", size, size=TILE, crop_to_patches=True, min_patches=1, max_patches=12)[
        "num_patches"
    ]
    assert rule.tokens(*size) == int(tiles[0]) * 256 + 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_budget(size):
    found = read("Gemma4ImageProcessor", size)["num_soft_tokens_per_image"]
    assert families()["gemma4"].pictures.tokens(*size) == int(found[0]) + 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_rows(size):
    rule = families()["mistral3"].pictures
    found = read("PixtralImageProcessor", size, size={"longest_edge": 1540}, patch_size={"height": 28, "width": 28})[
        "image_sizes"
    ][0]
    height, width = (int(edge) for edge in found)
    assert rule.tokens(*size) == (height // 28) * (width // 28 + 1)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_padded(size):
    grid = read("Kimi_K25ImageProcessor", size)["image_grid_thw"][0]
    assert families()["kimi_k25"].pictures.tokens(*size) == math.prod(grid.tolist()) // 4


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_crops(size):
    found = read("Phi4MultimodalImageProcessor", size)["num_img_tokens"]
    assert families()["phi4_multimodal"].pictures.tokens(*size) == int(found[0])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_slices(size):
    found = read("MiniCPMV4_6ImageProcessor", size)
    parts = [int(edges.prod()) // 16 for edges in found["target_sizes"]]
    rows, _ = (int(number) for number in found["grids"][0])
    expected = sum(tokens + 2 for tokens in parts) + max(0, rows - 1)
    assert families()["minicpm_v"].pictures.tokens(*size) == expected


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bounded(size):
    grid = read("NemotronH_Omni_Reasoning_V3ImageProcessor", size)["image_grid_hw"][0]
    assert families()["nemotron_omni"].pictures.tokens(*size) == math.prod(grid.tolist()) // 4 + 2
