"""Parts of a plan: read strictly, disjoint, complete and the same for everyone."""

import pytest

from cluster.errors import UserError
from cluster.storage.shard import part_of, read_shard, shard_of
from tests.cluster.test_observe import episode


@pytest.mark.parametrize(("shard", "parts"), [("1/1", (1, 1)), ("2/8", (2, 8)), ("8/8", (8, 8)), ("10/12", (10, 12))])
def test_a_part_and_the_number_of_parts_are_read(shard, parts):
    assert read_shard(shard) == parts


@pytest.mark.parametrize(
    "shard", ["0/2", "3/2", "0/0", "1", "1/2/3", "-1/2", "a/b", "1/2 ", " 1/2", "/2", "1/", 0.5, None]
)
def test_what_is_no_part_is_refused_by_name(shard):
    with pytest.raises(UserError, match="shard=") as refused:
        read_shard(shard)
    assert str(shard) in str(refused.value)


def test_which_part_an_episode_belongs_to_never_changes():
    first_digits = "0123456789ab"
    assert part_of(first_digits + "0" * 20, 7) == 0x0123456789AB % 7 + 1
    assert part_of(first_digits + "f" * 20, 7) == part_of(first_digits, 7), "only these digits count"
    assert part_of("00000000000a" + "0" * 20, 8) == 3
    assert part_of("0" * 32, 5) == 1


def test_parts_are_disjoint_about_equal_and_together_the_plan():
    plan = [episode(number) for number in range(300)]
    parts = [shard_of(plan, f"{part}/3") for part in (1, 2, 3)]
    assert sorted(each.index for part in parts for each in part) == list(range(300))
    assert all(70 <= len(part) <= 130 for part in parts)
    assert all(part_of(each.id, 3) == number for number, part in enumerate(parts, 1) for each in part)
    for part in parts:
        assert [each.index for each in part] == sorted(each.index for each in part), "in the order of the plan"


def test_without_a_shard_or_with_one_part_it_is_the_whole():
    plan = [episode(number) for number in range(5)]
    assert shard_of(plan, None) == shard_of(plan, "1/1") == tuple(plan)
