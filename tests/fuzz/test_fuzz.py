"""What the fuzzer starts from, and all that it ever found, shows no bug."""

import pytest

from tests.fuzz.corpora import CORPUS, inputs
from tests.fuzz.targets import TARGETS, target_of


@pytest.mark.parametrize("name", TARGETS)
def test_no_kept_input_shows_a_bug(name: str) -> None:
    for each in inputs(name):
        target_of(name).check(each)


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_are_spoilt_at_one_place_show_no_bug(name: str) -> None:
    target = target_of(name)
    for seed in target.seeds:
        for place in range(0, len(seed), 3):
            target.check(seed[:place] + bytes((seed[place] ^ 0x21,)) + seed[place + 1 :])
            target.check(seed[:place])


def test_each_file_of_the_corpus_is_of_a_target() -> None:
    assert {path.stem for path in CORPUS.iterdir()} <= set(TARGETS)
