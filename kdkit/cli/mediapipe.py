"""What `kdkit export` adds to LiteRT files for MediaPipe, and reports."""

import dataclasses

import numpy as np

from kdkit import export
from kdkit.errors import UsageError


@dataclasses.dataclass
class ForMediaPipe:
    """What the files of a model contain for MediaPipe.

    Args:
        task: `kdkit.export.mediapipe.TextTask`, or `None` if MediaPipe cannot
            run the model.
        problem: string or `None`. Why it cannot.
        title: string. The name of MediaPipe's class. Defaults to
            `"TextClassifier"`.
        texts: list of strings or `None`. The texts to count.
        ids: list of lists of ints, kdkit's token ids of these texts, or `None`.
        tokenizer: a tokenizer, or `None`.
        sequence_length: int or `None`.
        split: string or `None`. The split of the texts, in words.
    """

    task: "export.mediapipe.TextTask | None"
    problem: str | None
    title: str = "TextClassifier"
    texts: list | None = None
    ids: list | None = None
    tokenizer: object = None
    sequence_length: int | None = None
    split: str | None = None

    def report(self, path) -> None:
        """Prints how many texts MediaPipe reads as kdkit does."""
        if self.task is None:
            print(
                f"MediaPipe: {self.title} cannot run this model, because "
                f"{self.problem}.",
                flush=True,
            )
            return
        print(f"MediaPipe: {self._counted(path)}.", flush=True)

    def _counted(self, path):
        if self.texts is None:
            return f"{self.title} opens the files"
        theirs = self.task.text_ids(self.texts, self.sequence_length)
        found = export.mediapipe_tokens.differences(
            theirs, self.ids, self.texts, self.tokenizer, self.split
        )
        if found.rows and self.task.labels is not None:
            predict = export.open_file(path)
            same = sum(
                predict(_batch(theirs[row])).argmax()
                == predict(_batch(self.ids[row])).argmax()
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
    """Returns an exporter's arguments for what files return and contain."""
    if read.mediapipe is None:
        return {}
    found = {"mediapipe": read.mediapipe.task or False}
    if read.opened is None:
        return found
    function = read.opened.task.kind.output_function
    return {**found, "outputs": "logits" if logits else function}


def for_mediapipe(
    exporter, model, length, opened=None, split=None, encoded=None
):
    """Returns what the files of a model contain for MediaPipe."""
    if "mediapipe" not in exporter.options:
        return None
    if opened is None:
        return ForMediaPipe(None, "it runs classifiers of texts only")
    found = ForMediaPipe(
        None,
        None,
        tokenizer=opened.tokenizer,
        sequence_length=opened.sequence_length,
        split=split,
    )
    found = _with_task(
        found,
        model,
        length,
        lambda: _training_texts(opened, encoded),
        opened.task.class_names,
        opened.task.num_texts,
    )
    if encoded is None or found.problem is not None:
        return found
    texts = list(opened.read(split).texts[0])
    ids = [ids for ids, _ in encoded.contents()]
    return dataclasses.replace(found, texts=texts, ids=ids)


def of_embedder(exporter, model, length, tokenizer, texts, ids):
    """Returns what the files of an embedder contain for MediaPipe."""
    if "mediapipe" not in exporter.options:
        return None
    counted, others = texts or (None, ())
    found = ForMediaPipe(
        None,
        None,
        export.mediapipe.title(is_embedder=True),
        counted,
        ids,
        tokenizer,
        length,
        "compared",
    )
    return _with_task(found, model, length, lambda: others)


def _with_task(found, model, length, read_texts, labels=None, num_texts=1):
    """Adds what the files contain, or why MediaPipe cannot run the model."""
    source = export.exportable.exportable(
        model, in_steps=True, sequence_length=length
    )
    problem = export.mediapipe.obstacle(source, found.tokenizer, num_texts)
    if problem is not None:
        return dataclasses.replace(found, problem=problem)
    task = export.mediapipe.text_task(
        source, found.tokenizer, labels, read_texts()
    )
    return dataclasses.replace(found, task=task)


def _training_texts(opened, encoded):
    """The texts for training, none if their file is missing."""
    if encoded is None:
        return ()
    try:
        return list(opened.read("train").texts[0])
    except (OSError, UsageError):
        return ()
