"""Every reader of outside input, as a function of bytes in a folder.

Whatever the bytes are, a reader gives a value or raises `UsageError` or
`RunError`. Anything else is a find. A file of several parts has them apart by
`PART`.
"""

import json
import pathlib
import zlib

import keras
import keras_hub
import numpy as np
import readers_of_runs
from changes import changed
from given import BUNDLE
from given import BUNDLED
from given import BYTE_PAIR_FILE
from given import ENTRY
from given import OBJECT
from given import PASSAGE
from given import PIECES
from given import RUN
from given import TOKEN
from given import TOKENIZER_FILE
from given import VECTOR
from given import WHOLE_CLASS
from given import archive_of
from given import arrow_file
from given import arrow_stream
from given import events_of_a_run
from given import index_of_a_cache
from given import parquet_file
from given import sentence_piece_model
from given import unigram_file
from readers_of_runs import PART
from readers_of_runs import parts
from readers_of_runs import to_json
from readers_of_runs import write

from kdkit.cli.push import source_of_push
from kdkit.data.augmented import read_copies
from kdkit.data.examples import read_label_words
from kdkit.data.multiple_choice import RaceLayout
from kdkit.data.packing import open_packed
from kdkit.data.retrieval import read_retrieval
from kdkit.data.stored_texts import COLUMNS as TEXT_COLUMNS
from kdkit.data.stored_texts import read_hashes
from kdkit.data.table_layouts import TableLayout
from kdkit.data.table_layouts import read_table
from kdkit.data.tables import split_folders
from kdkit.data.text_files import Corpus
from kdkit.data.text_files import ParallelLines
from kdkit.data.text_files import ParallelText
from kdkit.data.token_files import ConllLayout
from kdkit.data.token_files import PolyphoneLayout
from kdkit.data.unlabeled import read_unlabeled
from kdkit.data.word_vectors import read_all_word_vectors
from kdkit.data.word_vectors import read_word_vectors
from kdkit.data.word_vectors import word_vector_width
from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.export.bundle import MANIFEST
from kdkit.export.bundle import VECTORS
from kdkit.export.bundle import read_bundle
from kdkit.export.bundle import read_test_vectors
from kdkit.export.device import parse_measurement
from kdkit.export.op_profile import parse_summary
from kdkit.export.transformers_checkpoint import HuggingFace
from kdkit.models import trust
from kdkit.models.heads import Head
from kdkit.models.hugging_face_byte_pairs import (
    read_byte_pairs as read_checkpoint_pairs,
)
from kdkit.models.hugging_face_files import tokenizer_files
from kdkit.models.hugging_face_tokenizers import (
    read_word_pieces as read_checkpoint_pieces,
)
from kdkit.models.hugging_face_unigrams import read_unigrams
from kdkit.models.loading import require_class_names
from kdkit.models.sentence_transformers import read_modules
from kdkit.models.sentence_transformers import read_pooling
from kdkit.models.text_rules import AddedToken
from kdkit.models.text_rules import TextRules
from kdkit.models.text_rules import bert_rules
from kdkit.models.tokenizers import with_saved_rules
from kdkit.models.variants import EXTRAS_FILE
from kdkit.models.vocabularies import read_byte_pairs
from kdkit.models.vocabularies import read_word_pieces
from kdkit.quantization.fake_quantization import read_quantization
from kdkit.recipes import RECIPES
from kdkit.reporting import comparison_table
from kdkit.reporting import group_by_seed
from kdkit.reporting import keep_records
from kdkit.reporting import markdown_overview
from kdkit.reporting import markdown_results
from kdkit.reporting import plot_learning_curves
from kdkit.reporting import plot_trade_off
from kdkit.reporting import read_records
from kdkit.reporting import render_report
from kdkit.reporting.cards import license_in
from kdkit.reporting.records import read_run
from kdkit.runs import smoke
from kdkit.runs.directory import RunDirectory
from kdkit.runs.directory import read_config
from kdkit.settings import from_dict
from kdkit.settings import override
from kdkit.settings import to_dict
from kdkit.tasks.own import from_table
from kdkit.tasks.own import from_toml
from kdkit.teacher_cache.index import Index
from kdkit.teacher_cache.shards import Shard

SMOKE = smoke.distillation(RECIPES["tinybert"])
LABELED = (
    b'{"text": "a", "label": 1}',
    b'{"text": "b", "label": 2}',
)
OF_CLASSES = {"_type": "ClassLabel", "names": ["a", "b", "c"]}
OF_DATASETS = ("state.json", "a.arrow", "dataset_info.json")
MODULES = [
    {"path": path, "type": f"sentence_transformers.models.{kind}"}
    for path, kind in (
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        ("2_Dense", "Dense"),
    )
]
LAYOUTS = {
    b"c": TableLayout("T", ("sentence",), "label", ("0", "1")),
    b"p": TableLayout("T", ("a", "b"), "score", None, joins_broken_rows=True),
    b"h": TableLayout(
        "T", (3,), 1, ("0", "1"), has_header=False, num_columns=4
    ),
    b"m": TableLayout("T", ("text",), "labels", ("joy", "fear"), ","),
}


def table(content, folder):
    layout = LAYOUTS.get(content[:1], LAYOUTS[b"c"])
    read_table(write(folder, "train.tsv", content[1:]), layout)


def own_table(content, folder):
    suffix, first, *others = parts(content, 4)
    if suffix == b"d":
        path = pathlib.Path(folder, "saved")
        for file, part in zip(OF_DATASETS, (first, *others), strict=False):
            write(folder, f"saved/{file}", part)
    else:
        known = {name.encode(): name for name in ("tsv", "jsonl", "json")}
        known[b"parquet"] = "parquet"
        path = write(folder, f"a.{known.get(suffix, 'csv')}", first)
    split_folders(path)
    columns = {"text_column": "text", "label_column": "label"}
    from_table(test=path, **columns).load("test")


def task_file(content, folder):
    write(folder, "a.csv", b"text,label\na,1\nb,2\nc,1\n")
    from_toml(write(folder, "task.toml", content))


def conll(content, folder):
    train, tags = parts(content, 2)
    write(folder, "T/train.txt", train)
    if tags:
        write(folder, "T/tags.txt", tags)
    ConllLayout("T").for_data(folder).read("train", folder)


def polyphone(content, folder):
    sentences, readings = parts(content, 2)
    write(folder, "polyphone/train.sent", sentences)
    write(folder, "polyphone/train.lb", readings)
    PolyphoneLayout().for_data(folder).read("train", folder)


def race(content, folder):
    write(folder, "race_middle/train_middle.jsonl", content)
    RaceLayout(("middle",)).read("train", folder)


def corpus(content, folder):
    path = write(folder, "text.txt", content[1:])
    ways = {b"c": {"column": "text"}, b"o": {"one_document": True}}
    text = Corpus((str(path),), **ways.get(content[:1], {}))
    text.check()
    text.num_words()


def parallel(content, folder):
    first, second = parts(content[1:], 2)
    files = (
        str(write(folder, "a.txt", first)),
        str(write(folder, "b.txt", second)),
    )
    if content[:1] == b"t":
        ParallelText(files[:1], ("en", "de")).check()
    else:
        reader = ParallelLines if content[:1] == b"l" else ParallelText
        reader(files).check()


def unlabeled(content, folder):
    names = {b"c": "more.tsv", b"v": "more.csv"}
    path = write(folder, names.get(content[:1], "more.txt"), content[1:])
    columns = ("text",) if content[:1] in names else ()
    read_unlabeled([path], columns, 1)


def retrieval(content, folder):
    suffix, *contents = parts(content, 4)
    suffix = "jsonl" if suffix == b"j" else "tsv"
    read_retrieval(
        *(
            write(folder, f"{name}.{suffix}", one)
            for name, one in zip(
                ("queries", "documents", "judgements"), contents, strict=True
            )
        )
    )


def copies(content, folder):
    list(read_copies(write(folder, "copies.tsv", content), 1, 10))


def label_words(content, folder):
    read_label_words(write(folder, "labels.txt", content))


def word_vectors(content, folder):
    path = write(folder, "glove.txt", content)
    read_all_word_vectors(path)
    read_word_vectors(path, ["the", "a"])
    word_vector_width(path)


def word_pieces(content, folder):
    read_word_pieces(write(folder, "vocab.txt", content))


def checkpoint_tokenizer(content, folder):
    names = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
    names += ("special_tokens_map.json", "added_tokens.json")
    for name, part in zip(names, parts(content, len(names)), strict=True):
        if part:
            write(folder, name, part)
    write(folder, "config.json", to_json({"model_type": "bert"}))
    read_checkpoint_pieces(
        tokenizer_files(folder), keras_hub.tokenizers.BertTokenizer
    )


def checkpoint_pieces(content, folder):
    """The byte pairs or the Unigram model of a checkpoint, run on a text."""
    kind, *contents = parts(content, 6)
    names = ("tokenizer.json", "tokenizer_config.json", "spiece.model")
    names += ("vocab.json", "merges.txt")
    for name, part in zip(names, contents, strict=True):
        if part:
            write(folder, name, part)
    write(folder, "config.json", to_json({"model_type": "any"}))
    cls, read = PIECES_OF_CHECKPOINTS.get(kind, PIECES_OF_CHECKPOINTS[b"a"])
    read(tokenizer_files(folder), cls)(["a text"])
    keras.utils.clear_session()


PIECES_OF_CHECKPOINTS = {
    b"a": (keras_hub.tokenizers.AlbertTokenizer, read_unigrams),
    b"x": (keras_hub.tokenizers.XLMRobertaTokenizer, read_unigrams),
    b"r": (keras_hub.tokenizers.RobertaTokenizer, read_checkpoint_pairs),
}


def sentence_transformer(content, folder):
    """The description of an embedder, without its encoder."""
    names = ("modules.json", "1_Pooling/config.json", "2_Dense/config.json")
    names += ("sentence_bert_config.json",)
    for name, part in zip(names, parts(content, len(names)), strict=True):
        if part:
            write(folder, name, part)
    path = pathlib.Path(folder)
    read_pooling(path, read_modules(path)[1:])


def text_rules(content, folder):
    write(folder, EXTRAS_FILE, content)
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES.decode().split())
    with_saved_rules(tokenizer, folder)


def byte_pairs(content, folder):
    vocabulary, merges = parts(content, 2)
    write(folder, "merges.txt", merges)
    read_byte_pairs(write(folder, "vocab.json", vocabulary))
    keras.utils.clear_session()  # which else keeps the tables of tokenizers


def class_names(content, folder):
    path = write(folder, "labels.json", content)
    require_class_names(path, Head("sequence", 2, ("bad", "good")))


def settings(content, folder):
    config, *assignments = content.split(PART)
    file = write(folder, "config.json", config)
    if config:
        from_dict(type(SMOKE), read_config(file))
    override(SMOKE, [text.decode("utf-8", "replace") for text in assignments])


def run(content, folder):
    config, events = parts(content, 2)
    write(folder, "config.json", config)
    write(folder, "metrics.jsonl", events)
    RunDirectory(pathlib.Path(folder)).events()
    records = read_run(folder)
    render_report(records)
    markdown_results([records])
    markdown_overview(group_by_seed([records]))


def events(content, folder):
    """A whole run with some fields changed; slow for inputs that draw plots."""
    log = [json.loads(line) for line in events_of_a_run().splitlines()]
    config, *log = changed([RUN, *log], content)
    write(folder, "config.json", to_json(config))
    write(folder, "metrics.jsonl", b"\n".join(map(to_json, log)))
    records = read_run(folder)
    markdown_results([records])
    comparison_table([records]).terminal()
    if zlib.crc32(content) % 32 == 0:
        render_report(records)
        plot_learning_curves([records])
        plot_trade_off([[records]])


def records(content, folder):
    """A file of records; readable records can be written again."""
    file = write(folder, "runs.jsonl", content)
    runs = read_records(file)
    if runs:
        markdown_results(runs)
        keep_records(runs, file)


def cache_index(content, folder):
    write(folder, "index.json", content)
    index = Index(pathlib.Path(folder), {"teacher": "a"})
    index.drop_damaged()
    index.read()


def cache_file(content, folder):
    shard = Shard(write(folder, "file.arrow", content))
    shard.keys.sum()
    read = shard.column("logits")
    for row in range(len(shard.keys)):
        read(row).sum()


def packed(content, folder):
    index, rows = parts(content, 2)
    write(folder, "index.json", index)
    write(folder, "rows", rows)
    found = open_packed(folder)
    if found is not None:
        found.rows.sum()


def stored_texts(content, folder):
    index, *columns = parts(content, 1 + len(TEXT_COLUMNS))
    write(folder, "index.json", index)
    for name, column in zip(TEXT_COLUMNS, columns, strict=True):
        write(folder, name, column)
    found = read_hashes(folder)
    if found is not None:
        found.sum()


def file_entry(content, folder):
    metadata.read(write(folder, "model.tflite", content))


def ranges(content, folder):
    read_quantization(write(folder, "quantization.json", content))


def bundle(content, folder):
    manifest, vectors = parts(content, 2)
    write(folder, MANIFEST, manifest)
    write(folder, VECTORS, vectors)
    for name, given in BUNDLED.items():
        write(folder, name, given)
    read_test_vectors(folder)
    read_bundle(folder)


def op_table(content, folder):
    parse_summary(content.decode("utf-8", "replace"), 50)


def measurement(content, folder):
    parse_measurement(content.decode("utf-8", "replace"))


def model_card(content, folder):
    license_in(write(folder, "README.md", content))


def pushed(content, folder):
    write(folder, "config.json", content)
    HuggingFace().owns(pathlib.Path(folder))
    source_of_push(folder)


def model_config(content, folder):
    name, config = parts(content, 2)
    known = {file.encode(): file for file in (*trust.CONFIGS, *trust.SHARDS)}
    write(folder, known.get(name, "config.json"), config)
    trust.require_safe_directory(pathlib.Path(folder))


def archive(content, folder):
    trust.require_safe_archive(write(folder, "model.keras", content))


# A valid input for each reader.
SEEDS = {
    table: [
        b"csentence\tlabel\na fine film\t1\n",
        b"pa\tb\tscore\none\ntwo\tthree\t2.5\n",
        b"hx\t1\t\ta text\n",
        b"mtext\tlabels\na text\tjoy,fear\n",
        b'csentence\tlabel\n"a ""fine"" film"\t1\n\n \n',
    ],
    own_table: [
        PART.join((b"csv", b'text;label\n"a ""fine""\n film";x\ndull;y\n')),
        PART.join((b"tsv", b'text\tlabel\n"a ""b"""\t1\nc d\t2\n')),
        PART.join((b"jsonl", b"\n".join(LABELED))),
        PART.join((b"json", b"[" + b",".join(LABELED) + b"]")),
        PART.join((b"parquet", parquet_file())),
        PART.join(
            (
                b"d",
                to_json({"_data_files": [{"filename": "a.arrow"}]}),
                arrow_stream(),
                to_json({"features": {"label": OF_CLASSES}}),
            )
        ),
    ],
    task_file: [
        b'train = "a.csv"\ntext_column = "text"\nlabel_column = "label"\n'
        b'labels = ["1", "2"]\nmetrics = ["accuracy"]\nregression = false\n'
    ],
    conll: [
        b"EU B-ORG\nrejects O\n\n",
        b"EU B-ORG\n" + PART + b"O\nB-ORG\n",
        "New York\tNNP\tB-LOC\n10\u00a0000\tCD\tO\n\n\n".encode(),
    ],
    polyphone: ["他▁长▁大\n".encode() + PART + b"zhang3\n"],
    race: [to_json(PASSAGE)],
    corpus: [b"1a text\nanother\n", b"cid\ttext\n1\ta text\n", b"oa\n\nb\n"],
    parallel: [b"la\nb\n" + PART + b"c\nd\n", b"ten\tde\na\tb\n"],
    unlabeled: [
        b"la text\n",
        b'l"Fine, ""thanks""", he said,\nand more;text\n',
        b"ctext\tid\na text\t1\n",
        b"vtext\tid\na text\t1\n\n",
    ],
    retrieval: [
        PART.join(
            (
                b"t",
                b"_id\ttext\nq\tcats\n",
                b"id\ttitle\ttext\n1\tA\tcat\n2\tB\tdog\n",
                b"query-id\tcorpus-id\tscore\nq\t1\t2\nq\t2\t0\n",
            )
        ),
        PART.join((b"t", b"q\tcats\n", b"1\tcat\n2\tdog\n", b"q 0 1 1\n")),
        PART.join(
            (
                b"j",
                to_json({"_id": "q", "text": "cats"}),
                to_json({"_id": "1", "text": "cat", "title": ""}),
                to_json({"query_id": "q", "document_id": "1", "score": 1}),
            )
        ),
    ],
    copies: [b"source_row\tcolumn\tcopy\tsentence\n3\t0\t1\ta text\n"],
    label_words: [b"joy\nfear\n"],
    word_vectors: [b"2 3\nthe 1 2 3\na 4 5e-1 -6\n", b"the 1 2\na 3 4\n"],
    word_pieces: [PIECES],
    checkpoint_tokenizer: [
        to_json(TOKENIZER_FILE) + PART + to_json({"do_lower_case": True}),
        PART.join(
            (
                b"",
                to_json({"added_tokens_decoder": {"9": TOKEN}}),
                PIECES,
                to_json({"cls_token": "[CLS]", "mask_token": TOKEN}),
                to_json({"more": 10}),
            )
        ),
    ],
    checkpoint_pieces: [
        PART.join((b"a", to_json(unigram_file()), to_json(WHOLE_CLASS))),
        PART.join((b"a", b"", b"{}", sentence_piece_model())),
        PART.join((b"r", to_json(BYTE_PAIR_FILE), to_json(WHOLE_CLASS))),
        PART.join(
            (
                b"r",
                b"",
                b"{}",
                b"",
                to_json(BYTE_PAIR_FILE["model"]["vocab"]),
                b"#version: 0.2\na b\n",
            )
        ),
    ],
    sentence_transformer: [
        PART.join(
            (
                to_json(MODULES),
                to_json({"pooling_mode_cls_token": True}),
                to_json({"out_features": 4, "bias": False}),
                to_json({"max_seq_length": 8}),
            )
        ),
        to_json(MODULES) + PART + to_json({"pooling_mode": ["max"]}),
    ],
    text_rules: [
        to_json({"text_rules": bert_rules(True).to_json()}),
        to_json(
            {
                "text_rules": TextRules(
                    ({"type": "NFC"},), (AddedToken("[MASK]", 4),)
                ).to_json()
            }
        ),
    ],
    byte_pairs: [
        to_json({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})
        + PART
        + b"#version: 0.2\na b\n"
    ],
    class_names: [to_json({"classes": ["bad", "good"]})],
    settings: [
        PART + b"seed=3",
        PART + b"stages.0.epochs=2" + PART + b"seed=7",
        to_json(to_dict(SMOKE)),
    ],
    run: [to_json(RUN) + PART + events_of_a_run()],
    records: [
        to_json({"name": "run", "config": RUN, "events": []}) + b"\n",
        to_json({"name": "x/teacher_run", "config": {}, "events": [{}]}),
    ],
    events: [b"", b"\x00\x08\x01\x00\x09\x02"],
    cache_index: [to_json(index_of_a_cache())],
    cache_file: [arrow_file()],
    packed: [
        to_json({"num_rows": 1, "sequence_length": 2, "num_texts": 1})
        + PART
        + np.arange(2, dtype="int32").tobytes()
    ],
    stored_texts: [
        to_json(
            {
                **{"num_truncated": 0, "texts": 1, "empty": 0},
                **{"repeated": 0, "left_out": 0, "sha256": {}},
                "bytes": {"token_ids": 8, "lengths": 4, "hashes": 8},
            }
        )
        + PART
        + np.arange(2, dtype="int32").tobytes()
        + PART
        + np.array([2], "int32").tobytes()
        + PART
        + np.array([7], "uint64").tobytes()
    ],
    file_entry: [b"TFL3" + archive_of({metadata.ENTRY: json.dumps(ENTRY)})],
    ranges: [
        to_json(
            {
                "precision": "static_int8",
                "ranges": {"logits": [[0, 1], [-1, 0]]},
            }
        ),
        to_json({"precision": "int4", "ranges": None}),
    ],
    bundle: [to_json(BUNDLE) + PART + to_json(VECTOR)],
    op_table: [
        b"= Summary by node type =\n[Node type]\n"
        b"Delegate/Softmax (NC, F32) 1 0.25 5.0% 5.0% 0.0 2\n"
        b"GELU 1 2 9% 9% 0.0 1"
    ],
    measurement: [
        b"Inference timings in us: Init: 51, First inference: 9\n"
        b"count=50 first=9 curr=8 avg=8.5 median=8 p95=9 p5=8\n",
        b"Inference timings in us: Init: 51\ncount=1 curr=8\n",
    ],
    pushed: [to_json(OBJECT), to_json({"model_type": "bert"})],
    model_card: [b"---\nlicense: mit\n---\n# A model", b"---\nlicense: 'x"],
    model_config: [
        b"config.json" + PART + to_json(OBJECT),
        b"model.weights.json" + PART + to_json({"weight_map": {"a": "a.h5"}}),
    ],
    archive: [
        archive_of({"config.json": json.dumps(OBJECT), "metadata.json": "{}"})
    ],
}
SEEDS |= readers_of_runs.SEEDS
READERS = {reader.__name__: reader for reader in SEEDS}


def breaks_its_word(name, content, folder):
    """Reads some bytes; returns an unexpected error, or `None`.

    Args:
        name: string. One of `READERS`.
        content: bytes.
        folder: path of an empty folder.

    Returns:
        An exception, or `None`.
    """
    try:
        READERS[name](content, folder)
    except UsageError as error:
        return TooLong(error) if len(str(error)) > MAX_SIGNS else None
    except Exception as error:
        kept = type(error).__name__ == "RunError"
        return None if kept else error
    return None


class TooLong(Exception):
    """A message that is too long to read."""


MAX_SIGNS = 20_000
