"""Constants and defaults of the cluster, on record in ``tests/golden``: a number that changes by mistake shows."""

import pytest

import cluster
from tests.golden import check_golden
from tests.stated import modules_of, stated_in

HOSTING = ("engines", "models", "doctor", "hosted", "checkpoints", "prefix_cache")


@pytest.mark.parametrize(("name", "hosting"), [("engines_defaults", True), ("cluster_defaults", False)])
def test_constants_and_defaults_are_on_record(name, hosting):
    modules = modules_of(cluster, left_out=("torch_compat",))
    check_golden(name, stated_in(each for each in modules if (each.__name__.split(".")[1] in HOSTING) is hosting))
