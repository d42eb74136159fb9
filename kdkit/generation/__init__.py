"""Cached decoding: one step, beam search, and text from models or files.

`kdkit.export.to_litert` writes the steps as files, which `generate`,
`make_beam_search` and `TextWriter` run.
"""

from kdkit.generation.beams import Beams, make_beam_search
from kdkit.generation.step import DecoderStep, Seq2SeqStep
from kdkit.generation.text import TextWriter, generate

__all__ = [
    "Beams",
    "DecoderStep",
    "Seq2SeqStep",
    "TextWriter",
    "generate",
    "make_beam_search",
]
