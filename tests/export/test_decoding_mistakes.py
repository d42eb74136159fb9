"""Positions that a model lacks, and impossible searches, are refused."""

import pytest
from kit.helpers import decoder

from kdkit.errors import UsageError
from kdkit.generation import (
    Beams,
    DecoderStep,
    Seq2SeqStep,
    generate,
    make_beam_search,
)
from kdkit.models import MassBackbone, MassSeq2SeqLM


def mass():
    return MassSeq2SeqLM(MassBackbone(9, 1, 1, 2, 8, 8, max_sequence_length=8))


MISTAKES = {
    "no beams": (lambda: Beams(0), "beam_size=0"),
    "penalty": (lambda: Beams(length_penalty=-0.1), "length_penalty=-0.1"),
    "NaN": (lambda: Beams(length_penalty=float("nan")), "length_penalty=nan"),
    "text": (lambda: make_beam_search(mass(), Beams(), 10, 2), "9 tokens"),
    "cache": (lambda: DecoderStep(decoder(1), 13), "12 positions"),
    "source": (lambda: Seq2SeqStep(mass(), 9, 8), "8 positions"),
    "target": (lambda: Seq2SeqStep(mass(), 8, 9), "8 positions"),
    "new tokens": (lambda: generate(decoder(1), [1, 2], 11), "12 tokens"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused(name):
    mistake, word = MISTAKES[name]
    with pytest.raises(UsageError, match=word):
        mistake()
