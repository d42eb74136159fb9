"""What `kdkit export` adds to LiteRT files for MediaPipe, and reports."""

import collections
import dataclasses

import numpy as np

from kdkit import export


@dataclasses.dataclass(frozen=True)
class ForMediaPipe:
    """What the files of a model contain for MediaPipe, or why they do not.

    Args:
        title: string. The name of MediaPipe's class.
        problem: string or `None`. Why it cannot run the model.
        task: `kdkit.export.mediapipe.TextTask`, or `None` with a problem.
        counted: list of strings or `None`. The texts to count.
        ids: list of arrays, kdkit's token ids of these texts.
        split: string. The split of the texts, in words.
        tokenizer: a tokenizer, or `None`.
        sequence_length: int or `None`.
    """

    title: str
    problem: str | None
    task: "export.mediapipe.TextTask | None" = None
    counted: list | None = None
    ids: list | None = None
    split: str = ""
    tokenizer: object = None
    sequence_length: int | None = None

    def report(self, path) -> None:
        """Prints how many texts MediaPipe reads as kdkit does."""
        if self.task is None:
            found = f"{self.title} cannot run this model, because "
            found += self.problem
        elif self.counted is None:
            found = f"{self.title} opens the files"
        else:
            found = self._differences(path)
        print(f"MediaPipe: {found}.", flush=True)

    def _differences(self, path):
        texts = self.counted
        theirs = self.task.text_ids(texts, self.sequence_length)
        rows = export.mediapipe_tokens.differing_rows(
            theirs, self.ids, texts, self.tokenizer
        )
        found = f"{len(texts) - len(rows)} of {len(texts)} {self.split} texts"
        found += " get the same ids"
        if not rows:
            return found
        causes = collections.Counter(rows.values()).most_common()
        causes = ", ".join(f"{cause} {number}" for cause, number in causes)
        found += f" ({len(rows)} differ: {causes}"
        if self.task.labels is not None:
            predict = export.open_file(path)
            same = sum(
                predict(_batch(theirs[row])).argmax()
                == predict(_batch(self.ids[row])).argmax()
                for row in rows
            )
            found += f"; {same} of them get the same class"
        return f"{found})"


def _batch(ids):
    ids = np.asarray(ids, "int32")[np.newaxis]
    segments = np.zeros_like(ids)
    mask = np.ones_like(ids)
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


def for_mediapipe(
    exporter,
    opened,
    length: int | None,
    read_texts=tuple,
    read_counted=None,
    split="compared",
) -> ForMediaPipe | None:
    """Returns what files contain for MediaPipe, `None` in other formats.

    Args:
        exporter: `kdkit.export.Exporter`.
        opened: `Opened`.
        length: int or `None`. The only length of the files.
        read_texts: function without arguments. Returns texts with words for
            the vocabulary. Defaults to none.
        read_counted: function without arguments, or `None`. Returns the texts
            to count, and tuples that start with kdkit's ids of them.
        split: string. The split of the texts, in words.
    """
    if "mediapipe" not in exporter.options:
        return None
    source = export.exportable.exportable(
        opened.model, in_steps=True, sequence_length=length
    )
    task, tokenizer = getattr(opened, "task", None), opened.tokenizer
    title = export.mediapipe.title(is_embedder=source.is_embedder)
    num_texts = 1 if task is None else task.num_texts
    problem = export.mediapipe.obstacle(source, tokenizer, num_texts)
    if problem is not None:
        return ForMediaPipe(title, problem)
    labels = None if task is None else task.class_names
    counted, rows = (None, ()) if read_counted is None else read_counted()
    return ForMediaPipe(
        title,
        None,
        export.mediapipe.text_task(source, tokenizer, labels, read_texts()),
        counted,
        [ids for ids, *_ in rows],
        split,
        tokenizer,
        opened.sequence_length,
    )
