"""From a Keras model to checked files for phones and servers, and their speed.

`to_litert` and `to_saved_model` compare each file with the Keras model before
the file gets its name; `LiteRTModel` and, for the step of a decoder,
`LiteRTDecoder` run a `.tflite` file, `SavedModel` a SavedModel, and `open_file`
opens either; `measure_latency` and `measure_latencies`
time it.
"""

from kdkit.export.latency import LatencyReport
from kdkit.export.latency import measure_latencies
from kdkit.export.latency import measure_latency
from kdkit.export.litert import to_litert
from kdkit.export.litert_decoder import LiteRTDecoder
from kdkit.export.litert_decoder import LiteRTSeq2Seq
from kdkit.export.litert_decoder import reads_sources
from kdkit.export.litert_model import LiteRTModel
from kdkit.export.opening import SavedModel
from kdkit.export.opening import open_file
from kdkit.export.options import PRECISIONS
from kdkit.export.report import ExportReport
from kdkit.export.saved_model import to_saved_model

__all__ = [
    "PRECISIONS",
    "ExportReport",
    "LatencyReport",
    "LiteRTDecoder",
    "LiteRTSeq2Seq",
    "LiteRTModel",
    "SavedModel",
    "measure_latencies",
    "measure_latency",
    "open_file",
    "reads_sources",
    "to_litert",
    "to_saved_model",
]
