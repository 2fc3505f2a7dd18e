"""Constants and defaults of the games, on record in ``tests/golden``."""

import envs
from tests.golden import check_golden
from tests.stated import modules_of, stated_in


def test_constants_and_defaults_are_on_record():
    check_golden("envs_defaults", stated_in(modules_of(envs)))
