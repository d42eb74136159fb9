"""Cached decoding: one step, beam search, text from models and their files.

`kdkit.export.to_litert` writes the steps as files, which `generate`,
`search_file` and `TextWriter` run.
"""

from kdkit.decoding.beams import Beams
from kdkit.decoding.beams import make_beam_search
from kdkit.decoding.file_search import search_file
from kdkit.decoding.seq2seq_step import Seq2SeqStep
from kdkit.decoding.step import DecoderStep
from kdkit.decoding.text import generate
from kdkit.decoding.writing import TextWriter

__all__ = [
    "Beams",
    "DecoderStep",
    "Seq2SeqStep",
    "TextWriter",
    "generate",
    "make_beam_search",
    "search_file",
]
