"""Code in model cards that runs exported files, by format."""

# By format: a title, and code with a string or an expression for {}.
EXAMPLES = {
    "litert": (
        "LiteRT (`pip install ai-edge-litert`), with ones in place of a text",
        """
import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter({})
name = next(iter(interpreter.get_signature_list()))
signature = interpreter.get_signature_runner(name)
inputs = signature.get_input_details().items()
print(signature(**{{k: np.ones(v["shape"], v["dtype"]) for k, v in inputs}}))
""",
    ),
    "TextClassifier": (
        "MediaPipe (`pip install mediapipe`), which reads strings",
        """
from mediapipe.tasks.python import BaseOptions
from mediapipe.tasks.python import text

options = text.TextClassifierOptions(BaseOptions({}))
with text.TextClassifier.create_from_options(options) as classifier:
    print(classifier.classify("A text.").classifications[0].categories)
""",
    ),
    "TextEmbedder": (
        "MediaPipe (`pip install mediapipe`), which reads strings",
        """
from mediapipe.tasks.python import BaseOptions
from mediapipe.tasks.python import text

options = text.TextEmbedderOptions(BaseOptions({}))
with text.TextEmbedder.create_from_options(options) as embedder:
    print(embedder.embed("A text.").embeddings[0].embedding)
""",
    ),
    "onnx": (
        "ONNX Runtime, with ones in place of a text",
        """
import numpy as np
import onnxruntime

model = onnxruntime.InferenceSession({})
shapes = {{one.name: one.shape for one in model.get_inputs()}}
batch = {{
    name: np.ones([n if isinstance(n, int) else 8 for n in shape], "int32")
    for name, shape in shapes.items()
}}
print(model.run(None, batch))
""",
    ),
    "saved_model": (
        "TensorFlow, with ones in place of a text",
        """
import tensorflow as tf

signature = tf.saved_model.load({}).signatures["serving_default"]
inputs = signature.structured_input_signature[1].items()
ones = {{k: tf.ones([n or 8 for n in v.shape], v.dtype) for k, v in inputs}}
print(signature(**ones))
""",
    ),
    "preset": (
        "keras-hub",
        """
import keras_hub

model = keras_hub.models.Task.from_preset({})
print(model.predict(["A text."]))  # logits
""",
    ),
    "sentence_transformers": (
        "sentence-transformers",
        """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer({})
print(model.encode(["A text."]).shape)
""",
    ),
    "hf": (
        "transformers",
        """
from transformers import pipeline

model = pipeline("PIPELINE", model={})
print(model("A text."))
""",
    ),
    "multiple-choice": (
        "transformers",
        """
from transformers import AutoModelForMultipleChoice

model = AutoModelForMultipleChoice.from_pretrained({})
""",
    ),
}
