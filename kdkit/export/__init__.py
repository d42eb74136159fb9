"""Exports Keras models to verified files and measures the files' latency.

`to_litert`, `to_saved_model`, `to_onnx`, `to_hugging_face` and
`to_sentence_transformers` compare each file with the Keras model before the
file gets its name. `export_model` writes any
format, and `open_file` opens and runs any. A format is an `Exporter`;
`register_exporter` adds one. `measure_latency` and `measure_latencies` time
files on this machine, `measure_on_device` on a phone.

A format is registered when its module is imported here.
"""

from kdkit.export.bundle import (
    MANIFEST,
    read_bundle,
    to_bundle,
    verify_bundle,
)
from kdkit.export.device import measure_on_device
from kdkit.export.directories import to_hugging_face, to_sentence_transformers
from kdkit.export.exporters import (
    Exporter,
    all_exporters,
    export_model,
    exporter_of,
    get_exporter,
    open_file,
    register_exporter,
)
from kdkit.export.inputs import BatchFile, file_logits
from kdkit.export.latency import measure_latencies, measure_latency
from kdkit.export.litert import PRECISIONS, reads_sources, to_litert
from kdkit.export.litert_decoder import LiteRTDecoder, LiteRTSeq2Seq
from kdkit.export.litert_files import LiteRTModel
from kdkit.export.onnx import ONNXModel, to_onnx
from kdkit.export.saved_model import SavedModel, to_saved_model
from kdkit.export.texts import TextInputs
from kdkit.exported import ExportReport, LatencyReport

__all__ = [
    "MANIFEST",
    "PRECISIONS",
    "BatchFile",
    "ExportReport",
    "Exporter",
    "LatencyReport",
    "LiteRTDecoder",
    "LiteRTModel",
    "LiteRTSeq2Seq",
    "ONNXModel",
    "SavedModel",
    "TextInputs",
    "all_exporters",
    "export_model",
    "exporter_of",
    "file_logits",
    "get_exporter",
    "measure_latencies",
    "measure_latency",
    "measure_on_device",
    "open_file",
    "read_bundle",
    "reads_sources",
    "register_exporter",
    "to_hugging_face",
    "to_bundle",
    "to_litert",
    "to_onnx",
    "to_saved_model",
    "to_sentence_transformers",
    "verify_bundle",
]
