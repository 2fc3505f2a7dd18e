"""Constants and defaults of what is asked and scored, on record in ``tests/golden``."""

import evals
from tests.golden import check_golden
from tests.stated import modules_of, stated_in

_OF_OTHER_LIBRARIES = ("nemo_gym_server", "openenv_server", "verifiers_env")


def test_constants_and_defaults_are_on_record():
    check_golden("evals_defaults", stated_in(modules_of(evals, left_out=_OF_OTHER_LIBRARIES)))
