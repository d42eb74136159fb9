"""What `kdkit export` adds to LiteRT files for MediaPipe, and reports."""

import dataclasses

import numpy as np

from kdkit import export
from kdkit.errors import UsageError


@dataclasses.dataclass
class ForMediaPipe:
    """The files of one model for MediaPipe's `TextClassifier`.

    Args:
        classifier: `TextClassifier`, or `None` if it cannot run the model.
        problem: string or `None`. Why it cannot.
        opened: `kdkit.cli.models.Opened`, or `None`.
        split: string or `None`. The split to count texts on.
        encoded: the split encoded, or `None`.
    """

    classifier: "export.mediapipe.TextClassifier | None"
    problem: str | None
    opened: object = None
    split: str | None = None
    encoded: object = None

    def report(self, path) -> None:
        """Prints how many texts MediaPipe reads as kdkit does.

        Args:
            path: path of a file for the classes of texts that differ.
        """
        if self.classifier is None:
            print(
                "MediaPipe: TextClassifier cannot run this model, because "
                f"{self.problem}.",
                flush=True,
            )
            return
        print(f"MediaPipe: {self._counted(path)}.", flush=True)

    def _counted(self, path):
        if self.encoded is None:
            return "TextClassifier opens the files"
        length = self.opened.sequence_length
        texts = list(self.opened.read(self.split).texts[0])
        ours = [ids for ids, _ in self.encoded.contents()]
        theirs = self.classifier.text_ids(texts, length)
        found = export.mediapipe_tokens.differences(
            theirs, ours, texts, self.opened.tokenizer, self.split
        )
        if found.rows:
            predict = export.open_file(path)
            same = sum(
                predict(_batch(theirs[row])).argmax()
                == predict(_batch(ours[row])).argmax()
                for row in found.rows
            )
            found = dataclasses.replace(found, same_class=int(same))
        return str(found)


def _batch(ids):
    ids = np.asarray(ids, "int32")[np.newaxis]
    segments = np.zeros_like(ids)
    mask = np.ones_like(ids)
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


def arguments(read, logits: bool) -> dict:
    """Returns an exporter's arguments for what files return and contain.

    Args:
        read: an object with `mediapipe` from `for_mediapipe`, and `opened`.
        logits: bool. Whether classifiers return logits.
    """
    if read.mediapipe is None:
        return {}
    found = {"mediapipe": read.mediapipe.classifier or False}
    if read.opened is None:
        return found
    function = read.opened.task.kind.output_function
    return {**found, "outputs": "logits" if logits else function}


def for_mediapipe(
    exporter, model, length, opened=None, split=None, encoded=None
):
    """Returns what the files of a model contain for MediaPipe.

    Args:
        exporter: `kdkit.export.Exporter`.
        model: `keras.Model`.
        length: int or `None`. The length to export with.
        opened: `kdkit.cli.models.Opened` for a model of a task. Defaults to
            `None`.
        split: string or `None`. The split to count texts on.
        encoded: the split encoded, or `None`.

    Returns:
        `ForMediaPipe`, or `None` for a format without MediaPipe's metadata.

    Raises:
        UsageError: if the model cannot be exported.
    """
    if "mediapipe" not in exporter.options:
        return None
    if opened is None:
        return ForMediaPipe(None, "it runs classifiers of texts only")
    task, tokenizer = opened.task, opened.tokenizer
    source = export.exportable.exportable(
        model, in_steps=True, sequence_length=length
    )
    problem = export.mediapipe.obstacle(source, tokenizer, task.num_texts)
    if problem is not None:
        return ForMediaPipe(None, problem)
    classifier = export.mediapipe.text_classifier(
        source, tokenizer, task.class_names, _training_texts(opened, encoded)
    )
    return ForMediaPipe(classifier, None, opened, split, encoded)


def _training_texts(opened, encoded):
    """The texts for training, none if their file is missing.

    Words of the texts that are counted afterwards would flatter the count.
    """
    if encoded is None:
        return ()
    try:
        return list(opened.read("train").texts[0])
    except UsageError:
        return ()
