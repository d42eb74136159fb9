"""Decoders at work: one step, files of it, text.

`to_litert` writes a decoder as a file that reads one token at a time, checked
against the Keras model; `generate` continues a text with such a file.
"""

from kdkit.decoding.beams import Beams
from kdkit.decoding.beams import make_beam_search
from kdkit.decoding.file_search import search_file
from kdkit.decoding.litert import to_litert
from kdkit.decoding.seq2seq_litert import seq2seq_to_litert
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
    "seq2seq_to_litert",
    "to_litert",
]
