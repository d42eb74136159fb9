"""From words, files and dicts to a run's config, without TensorFlow."""

import functools
import json
import re

import jsonschema
import pytest

from kdkit.cli.main import main
from kdkit.cli.runs import asked_by
from kdkit.config.runs import ADAPTER, schema
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs.configure import config_of

LIGHTPAFF = ("distill", "lightpaff", "--model")
GPT2 = (
    *(*LIGHTPAFF, "gpt2", "--decoder", "gpt2_medium_en"),
    *("--vocabulary-size", "300", "--corpus", "general.txt"),
    *("--task-text", "task.txt", "--task-held-out", "held_out.txt"),
)
MASS = (
    *(*LIGHTPAFF, "mass", "--decoder", "mass_6_layer"),
    *("--vocabulary-size", "400", "--pairs", "a.txt", "b.txt"),
)
NEW = ("--task", "sst2", "--teacher", "t")
SMOKES = [
    *(("distill", name) for name in RECIPES),
    *((*LIGHTPAFF, name) for name in RECIPES["lightpaff"].for_families),
    *((*LIGHTPAFF, "bert"), ("train-teacher",), ("pretrain",)),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, with a file for each option."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "task.txt", "general.txt", "a=b"):
        (tmp_path / name).write_text("some words\n")
    return tmp_path


def made(*words):
    """The config that a command line runs."""
    verb, *words = words
    return asked_by(verb, [*map(str, words), "--run-dir", "run"]).config()


def as_json(config):
    return json.loads(json.dumps(config.model_dump(mode="json")))


def at(config, path):
    """A field of a config, as JSON has it."""
    keys = path.split(".")
    return functools.reduce(lambda one, key: one[key], keys, as_json(config))


def write_model(folder, **config):
    """Writes the config of a model or of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def write_run(folder, config):
    """Writes the config.json that a run has."""
    noted = {"requested": {"training.seed": 1}, "provenance": {}, "replicas": 2}
    return write_model(folder, **as_json(config) | noted)


@pytest.mark.parametrize("words", SMOKES, ids=" ".join)
def test_a_config_survives_json_and_fits_the_schema(words):
    config = made(*words, "--smoke")
    jsonschema.validate(as_json(config), schema())
    text = json.dumps(config.model_dump(mode="json"))
    assert ADAPTER.validate_json(text) == config
    assert list(at(config, "stages")) == [one.name for one in config.stages]


def test_words_and_files_make_the_same_config(folder):
    words = (*NEW, "--num-layers", "3", "--seed", "4", "--control")
    words += ("stages.prediction_layer.epochs=2",)
    config = made("distill", "tinybert", *words)
    (folder / "my.toml").write_text(
        'recipe = "tinybert"\nteacher = "t"\ncontrol = true\n'
        'data.task = "sst2"\nstudent.num_layers = 3\ntraining.seed = 4\n'
        "[stages.prediction_layer]\nepochs = 2\n"
    )
    assert made("distill", "my.toml") == config
    assert made("distill", "--config", "my.toml") == config
    assert made("distill", "my.toml", "--seed", "5") != config


@pytest.mark.parametrize("words", [SMOKES[0], SMOKES[5], (*LIGHTPAFF, "gpt2")])
def test_the_config_of_a_run_is_run_again(words, folder):
    config = made(*words, "--smoke")
    run = write_run(folder / "old", config)
    for place in (run, f"{run}/config.json"):
        assert made("distill", place) == config
    again = made("distill", run, "--seed", "7")
    assert again.training.seed == 7
    assert again.replace(training=config.training) == config
    with pytest.raises(UsageError, match="'model'"):
        made("distill", run, "model=zzz")


def test_data_of_a_run_that_is_run_again_are_those_given(folder):
    rows = "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40))
    (folder / "t.csv").write_text(f"text,label\n{rows}")
    table = ("--train", "t.csv", "--text-column", "text")
    table += ("--label-column", "label", "--teacher", "t")
    own = made("distill", "pkd", *table)
    run = write_run(folder / "own", own)
    less = made("distill", run, "data.max_train_rows=5").data
    assert (less.table, less.max_train_rows) == (own.data.table, 5)
    again = made("distill", run, "--task", "mrpc", "--data-dir", ".")
    assert (again.data.task, again.data.table) == ("mrpc", None)
    run = write_run(folder / "glue", made("distill", "pkd", *NEW))
    again = made("distill", run, *table)
    assert (again.data.task, again.data.table) == ("t", own.data.table)
    for word in ("recipe=vanilla_kd", "parity=pkd"):
        with pytest.raises(UsageError, match="does not change"):
            made("distill", run, word)


def test_epochs_of_a_run_that_is_run_again_are_those_given(folder):
    run = write_run(folder / "old", made("distill", "pkd", *NEW))
    for words in (("--epochs", "2"), ("stages.fine_tuning.epochs=2",)):
        (stage,) = made("distill", run, *words).stages
        assert (stage.epochs, stage.least_updates) == (2, 0)


def test_swapped_stages_are_another_run():
    config = made("distill", "tinybert", "--smoke")
    other = config.replace(stages=config.stages[::-1])
    assert other != config
    assert json.dumps(as_json(other)) != json.dumps(as_json(config))


def test_all_mistakes_in_a_command_are_told_together(capsys):
    words = "distill tinybert --smoke --tsk z stages.prediction_layer.epoch=3"
    words += " stages.prediction_layer.learning_rate=-1 training.seed=x"
    words += " data.dev_split=test student.num_layer=3 stages.more.epochs=3"
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    for named in (
        *("option '--tsk'. Expected one of: --task, ", "Missing: --run-dir"),
        "field of prediction_layer 'epoch'. Expected one of: epochs, ",
        "stages.prediction_layer.learning_rate: Input should be greater than 0",
        *("training.seed: Input should be a valid integer", "dev_split: "),
        "field of student 'num_layer'. Expected one of: num_layers, ",
        "stages.more: Unknown stage 'more'. Expected one of: ",
    ):
        assert named in told


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (
            ("distill", "tinybert", *NEW, "--num-layers", "3"),
            {"student.num_layers": 3, "student.hidden_dim": 312},
        ),
        (
            ("distill", "vanilla_kd", *NEW, "u", "--teacher-weights", "2", "1"),
            {"teacher": ["t", "u"], "teacher_weights": [2.0, 1.0]},
        ),
        (
            ("distill", "tinybert", *NEW, "--stages", "prediction_layer"),
            {"data.num_buckets": 8, "data.sequence_length": 64},
        ),
        (
            ("distill", "tinybert", *NEW, "--parity", "tinybert"),
            {"data.num_buckets": None},
        ),
        (
            ("distill", "pkd", *NEW, "--unlabeled", "u.txt", "--cache", "c"),
            {"unlabeled.per_labeled": 1.0, "unlabeled.files": ["u.txt"]},
        ),
        (
            ("distill", "pkd", *NEW, "--quantize", "static_int8"),
            {"stages.quantization.quantize": "static_int8"},
        ),
        (
            ("distill", "pkd", *NEW, "--student", "s", "--layers", "1", "3"),
            {"student.copy_from": "s", "student.layers": [1, 3]},
        ),
        (
            ("distill", "pkd", *NEW, "--mixed-precision", "bfloat16"),
            {"training.dtype_policy": "mixed_bfloat16"},
        ),
        (
            ("distill", "pkd", "--smoke", "--strategy", "mirrored"),
            {"steps.teacher.training.strategy": "mirrored"},
        ),
        (
            ("pretrain", "--corpus", "c.txt", "a=b", "training.seed=5")
            + ("--student", "lightpaff_gpt2_4_layer_en"),
            {"training.seed": 5, "corpus.kind": "corpus"},
        ),
        (
            ("pretrain", "--pairs", "a.txt", "b.txt", "--languages", "en", "de")
            + ("--student", "lightpaff_mass_6_4_layer", "--tokenizer", "500"),
            {"stages.fine_tuning.epochs": 10, "tokenizer": 500},
        ),
        (
            ("pretrain", "--corpus", "a.txt", "--vocabulary-size", "400")
            + ("--student", "lightpaff_mass_6_4_layer"),
            {"corpus.kind": "sentences", "tokenizer": 400},
        ),
        (
            ("pretrain", "--recipe", "distilbert", "--corpus", "a.txt")
            + ("--teacher", "t"),
            {"corpus.masking.share_of": "batch"},
        ),
        (
            ("distill", "sentence_embedding", "--texts", "a.txt")
            + ("--teacher", "t", "--layers", "2", "3"),
            {"student.layers": [2, 3], "data.scored": None},
        ),
        (
            ("distill", "multilingual", "--parallel", "a.txt", "b.txt")
            + ("--teacher", "t"),
            {"data.tokenizer": 16_000, "student.share": 1.0},
        ),
        (
            ("distill", "multilingual", "--parallel", "a.txt", "b.txt")
            + ("--teacher", "t", "--student", "s"),
            {"data.tokenizer": None, "student.checkpoint": "s"},
        ),
        (
            ("distill", "reranker_to_embedder", "--candidates", "a.txt")
            + ("--teacher", "t", "--student", "s", "--num-layers", "2"),
            {"student.copy_from": "s", "student.num_layers": 2},
        ),
    ],
)
def test_words_are_fields(words, values):
    config = made(*words)
    assert {path: at(config, path) for path in values} == values


@pytest.mark.parametrize("more", [NEW, ("--smoke",)])
def test_only_the_stages_that_are_named_are_run(more):
    words = ("--stages", "quantization", "--quantize", "int4", *more)
    (stage,) = made("distill", "tinybert", *words).stages
    assert (stage.name, stage.quantize) == ("quantization", "int4")


def test_places_of_files_are_absolute(folder):
    config = made(
        "distill", "pkd", *NEW, "--cache", "c", "--unlabeled", "a.txt"
    )
    assert config.cache.directory == str(folder / "c")
    assert config.unlabeled.files == (str(folder / "a.txt"),)


def test_a_bilstm_is_as_wide_as_its_word_vectors(folder):
    (folder / "vectors.txt").write_text("film 0.1 0.2 0.3\n")
    words = ("--word-vectors", "vectors.txt")
    student = made("distill", "distilled_bilstm", *NEW, *words).student
    assert (student.embedding_dim, student.units) == (3, 150)


def test_data_and_start_are_those_of_the_teachers_run(folder):
    encoder = write_model(folder / "encoder", registered_name="x")
    words = ("train-teacher", "--task", "cola", "--model", encoder)
    run = write_run(folder / "run", made(*words, "data.max_train_rows=9"))
    config = made("distill", "pkd", "--teacher", run)
    assert (config.data.task, config.data.max_train_rows) == ("cola", None)
    assert config.pretrained == encoder
    assert config.student.copy_from == "pretrained"
    assert made("distill", "pkd", *NEW).student.copy_from == "teacher"
    words = ("distill", "tinybert", "--teacher", run)
    assert made(*words).pretrained is None
    assert made(*words, "--parity", "tinybert").data.num_buckets is None
    (folder / "encoder" / "config.json").unlink()
    (folder / "encoder").rmdir()
    again = made("distill", "pkd", "--teacher", run)
    assert (again.pretrained, again.student.copy_from) == (None, "teacher")


@pytest.mark.parametrize(
    ("words", "least"),
    [
        ((), 1000),
        (("--batch-size", "8"), 1000),
        (("--epochs", "2"), 0),
        (("every_stage.epochs=2",), 0),
        (("--epochs", "2", "every_stage.least_updates=9"), 9),
        (("stages.fine_tuning.epochs=2",), 0),
        (("--parity", "pkd"), 0),
        (("--unlabeled", "u.txt"), 0),
        (("--augment", "a.tsv"), 0),
        (("--smoke",), 0),
    ],
)
def test_stages_ask_for_enough_updates(words, least):
    (stage,) = made("distill", "pkd", *NEW, *words).stages
    assert stage.least_updates == least


def test_an_encoder_makes_the_teacher_and_what_it_needs(folder):
    write_model(folder / "encoder", registered_name="x")
    words = ("--encoder", "encoder", "--task", "sst2", "--corpus", "a.txt")
    words += ("steps.pretrained.corpus.sequence_length=64", "--seed", "3")
    config = made("distill", "lightpaff", *words, "data.max_train_rows=100")
    assert list(config.steps) == ["pretrained", "teacher"]
    pretrained, teacher = config.steps.values()
    assert pretrained.student.checkpoint == str(folder / "encoder")
    assert teacher.student.checkpoint == config.pretrained == "run:pretrained"
    assert config.teacher == ("run:teacher",)
    assert teacher.data == config.data
    lengths = [one.corpus.sequence_length for one in (pretrained, config)]
    assert lengths == [64, 128]
    seeds = [one.training.seed for one in (pretrained, teacher, config)]
    assert seeds == [0, 0, 3]
    on_task = ("distilbert", *words[:4], "--stages", "fine_tuning")
    assert list(made("distill", *on_task).steps) == ["teacher"]
    vanilla = made("distill", "vanilla_kd", *words[:4])
    assert list(vanilla.steps) == ["teacher"]
    assert vanilla.student.copy_from == "pretrained"
    own = made("distill", "vanilla_kd", *words[:4], "--teacher", "t")
    assert (own.steps, own.pretrained) == ({}, str(folder / "encoder"))


def test_a_file_has_the_runs_before_a_run(folder):
    (folder / "my.toml").write_text(
        'recipe = "tinybert"\nteacher = "run:teacher"\n'
        'data.task = "cola"\naugmented.file = "more.tsv"\n'
        '[steps.teacher]\nrecipe = "fine_tuning"\nrun_dir = "t"\n'
        'student.checkpoint = "bert_base_en_uncased"\nepochs = 2\n'
        '[steps.assistant]\nrecipe = "pkd"\nteacher = "run:teacher"\n'
        '[steps.augmented]\nkind = "augmentation"\nmodel = "m"\n'
    )
    config = made("distill", "my.toml")
    teacher, assistant, augmented = config.steps.values()
    assert assistant.data.task == "cola"
    assert (teacher.data, teacher.run_dir) == (config.data, str(folder / "t"))
    assert (teacher.stages[0].epochs, teacher.stages[0].name) == (
        2,
        "fine_tuning",
    )
    assert augmented.data.task == "cola"
    config = made("distill", "my.toml", "--parity", "tinybert")
    assert config.data.num_buckets is None
    assert config.steps["teacher"].data == teacher.data
    with pytest.raises(UsageError, match="field of teacher 'epoch'"):
        made("distill", "my.toml", "steps.teacher.epoch=3")
    words = ("recipe=pkd", "steps.augmented.parity=tinybert")
    other = made("distill", "my.toml", *words)
    assert [stage.name for stage in other.stages] == ["fine_tuning"]
    assert other.steps["augmented"].num_copies == 30


def test_general_distillation_is_a_step(folder):
    words = ("--pretrained", "p", "--general", "g")
    config = made("distill", "tinybert", *NEW, *words, "--corpus", "a.txt")
    (general,) = config.steps.values()
    place = str(folder / "g")
    assert (general.teacher, general.run_dir) == ("p", place)
    assert general.student.hidden_dim == 312
    assert config.student.checkpoint == place
    assert config.corpus is None
    assert not made("distill", "tinybert", *NEW, *words).steps
    write_model(folder / "encoder", registered_name="x")
    words = ("--encoder", "encoder", "--task", "cola", *words[2:])
    words += ("--corpus", "a.txt", "--parity", "tinybert")
    config = made("distill", "tinybert", *words, "data.max_train_rows=9")
    assert list(config.steps) == ["teacher", "general"]
    teacher, general = config.steps.values()
    place = str(folder / "encoder")
    assert (config.teacher, config.pretrained) == (("run:teacher",), place)
    assert teacher.student.checkpoint == general.teacher == place
    assert teacher.data == config.data.replace(num_buckets=8)
    assert general.parity == "tinybert"
    recipe = RECIPES["tinybert"]
    assert general.stages == recipe.stages_on_text("tinybert")
    assert config.student.checkpoint == general.run_dir == str(folder / "g")


def test_augmented_examples_are_a_step(folder):
    words = ("--augment", "more.tsv", "--augment-model", "m")
    config = made(
        "distill", "tinybert", "--teacher", "t", "--task", "cola", *words
    )
    (step,) = config.steps.values()
    assert (step.kind, step.model, step.num_copies) == ("augmentation", "m", 20)
    assert config.augmented.file == str(folder / "more.tsv")
    words += ("--parity", "tinybert")
    config = made(
        "distill", "tinybert", "--teacher", "t", "--task", "cola", *words
    )
    assert config.steps["augmented"].num_copies == 30


def test_four_runs_on_running_text_follow_each_other():
    config = made(*GPT2, "--one-document", "--seed", "3")
    assert list(config.steps) == ["pretrained", "teacher", "general"]
    pretrained, teacher, general = config.steps.values()
    assert pretrained.tokenizer == 300
    sizes = [one.student.num_layers for one in (pretrained, general)]
    assert sizes == [24, 4]
    assert general.teacher == teacher.student.checkpoint == "run:pretrained"
    assert config.student.checkpoint == "run:general"
    assert config.teacher == "run:teacher"
    assert general.corpus == pretrained.corpus != teacher.corpus
    assert config.corpus == teacher.corpus
    assert config.corpus.one_document > pretrained.corpus.one_document
    assert not teacher.objectives
    weights = [one.stages[0].soft_label_weight for one in (general, config)]
    assert weights == [0.4, 0.5]
    runs = (*config.steps.values(), config)
    assert [one.training.seed for one in runs] == [0, 0, 3, 3]
    words = ("corpus.sequence_length=64", "steps.teacher.corpus.max_texts=9")
    runs = made(*GPT2, *words)
    assert runs.steps["general"].corpus.sequence_length == 64
    assert runs.steps["teacher"].corpus.max_texts == 9


def test_a_place_replaces_a_step():
    words = ("--task-text", "task.txt", "--teacher", "t", "--general", "g")
    config = made(*LIGHTPAFF, "gpt2", *words)
    assert not config.steps
    assert config.teacher == "t"
    words = (*words[:2], "--pretrained", "p", "--corpus", "general.txt")
    config = made(*LIGHTPAFF, "gpt2", *words)
    assert list(config.steps) == ["teacher", "general"]
    assert config.steps["general"].teacher == "p"


def test_languages_of_pairs_are_those_of_the_sentences():
    words = ("--corpus", "a.txt", "c.txt", "b.txt")
    config = made(*MASS, *words, "--languages", "en", "en", "de")
    assert config.corpus.languages == ("en", "de")
    general = config.steps["general"].corpus
    assert general.languages == ("en", "en", "de")
    words += ("--languages", "en", "en", "de", "--pairs", "b.txt", "a.txt")
    with pytest.raises(UsageError, match=r"languages of .*b\.txt: 'de', 'en'"):
        made(*MASS, *words)


def test_tables_are_completed_from_the_files(folder):
    (folder / "t.csv").write_text(
        "x,y\n" + "a fine film,good\na film,bad\n" * 9
    )
    words = ("--text-column", "x", "--label-column", "y", "--teacher", "t")
    data = made("distill", "pkd", "--train", "t.csv", *words).data
    assert (data.task, data.table.labels) == ("t", ("bad", "good"))
    assert data.table.train == str(folder / "t.csv")
    step = ("steps.augmented.kind=augmentation", "steps.augmented.model=m")
    step += ("--augment", "more.tsv")
    config = made("distill", "pkd", "--train", "t.csv", *words, *step)
    assert config.steps["augmented"].data.table == data.table
    with pytest.raises(UsageError, match="field of table 'labls'"):
        made("distill", "pkd", "--train", "t.csv", *words, "data.table.labls=1")
    words = ("--texts", "a.txt", "--dev", "s.csv", *words)
    (folder / "s.csv").write_text("x,z,y\n" + "a,b,0.5\nc,d,1.5\n" * 9)
    words = [*words[:5], "x", "z", *words[6:]]
    scored = made("distill", "sentence_embedding", *words).data.scored
    assert (scored.task, scored.table.regression) == ("s", True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("distill nothing", "file 'nothing'. Expected one of: "),
        ("distill", "Missing: RECIPE or FILE"),
        ("distill pkd", "data.task: Field required"),
        ("distill pkd --task sst2", "there is no teacher"),
        ("distill pkd --task nothing --teacher t", "task 'nothing'"),
        ("distill pkd --smoke --parity nothing", "parity of pkd 'nothing'"),
        ("distill pkd --smoke --stages nothing", "stage 'nothing'"),
        ("distill pkd --smoke nothing=1", "field 'nothing'"),
        ("distill pkd --smoke --t a", "Ambiguous option: --t could match"),
        ("distill pkd --smoke --epochs", "--epochs: expected one argument"),
        ("distill pkd vanilla_kd --smoke", "Unexpected: vanilla_kd"),
        ("distill pkd --smoke --cache-precision a", "'fp32', 'bf16' or 'int8'"),
        ("distill lightpaff --model t5", "family 't5'"),
        ("distill pkd --config nothing.json", "file 'nothing.json'"),
        (
            "distill tinybert --smoke --epochs 3",
            "stages.prediction_layer.epochs",
        ),
        (
            " ".join([*GPT2, "--epochs", "3"]),
            "steps.teacher.stages.NAME.epochs",
        ),
        ("train-teacher", "student: Name one of: checkpoint, "),
        ("pretrain", "corpus.files: Field required"),
        ("pretrain --corpus a.txt --model m --tokenizer t", "tokenizer is"),
        (
            "distill pkd --task sst2 --teacher t --layers 1 --num-layers 2",
            "one of",
        ),
        ("distill tinybert --smoke --parity tinybert --cache c", "no cache"),
        (
            "distill distilbert --task sst2 --teacher t --corpus a.txt",
            "name it",
        ),
        ("distill tinybert --smoke --corpus a.txt", "go together"),
        (
            "distill tinybert --task sst2 --teacher t --augment-model m",
            "name augmented.file",
        ),
        (
            "distill pkd --task sst2 --teacher t --general g --num-layers 3",
            "The student is that of --general",
        ),
        ("distill pkd --smoke --augment-vectors v", "'augment_vectors'"),
        ("distill sentence_embedding --texts a.txt --task sst2", "teacher: "),
        ("distill sentence_embedding --smoke --corpus a.txt", "'--corpus'"),
        ("distill multilingual --smoke cache=null", "read other tokens"),
        ("distill pkd --smoke --seed nothing", "training.seed: "),
        ("pretrain --recipe tinybert --smoke", "objectives and a teacher"),
        (
            "distill pkd --smoke stages.fine_tuning.batch_tokens=9",
            "batch_tokens is not read: set batch_size",
        ),
        (
            "distill lightpaff --model mass --smoke "
            "steps.general.stages.pretraining.batch_size=9",
            "batch_size is not read: set batch_tokens",
        ),
    ],
)
def test_mistakes_are_named(words, named):
    with pytest.raises(UsageError, match=re.escape(named)):
        made(*words.split())


SIZES = '{"num_layers":1,"hidden_dim":8,"num_heads":2,"intermediate_dim":8,'


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("tinybert stages.prediction_layer.data=corpus", "go together"),
        ("tinybert stages.intermediate_layer.quantize=int4", "only the last"),
        ("pkd --quantize int4 --mixed-precision bfloat16", "round in float32"),
        ("pkd --strategy mirrored --mixed-precision float16", "one device"),
        ("fine_tuning --unlabeled a.txt", "learns from a teacher: unlabeled"),
        ("fine_tuning --cache c", "learns from a teacher: cache"),
        ("pkd --teacher-weights 1 2", "needs one for each teacher"),
        ("lightpaff pretrained=null", "name it as pretrained"),
        ("sentence_embedding stages.distillation.data=task", "data=texts"),
        (
            "sentence_embedding stages.distillation.hard_label_weight=1",
            "texts have no labels",
        ),
        (
            f'sentence_embedding --control student={SIZES}"dropout":0.0}}',
            "two dropout masks",
        ),
        ("reranker_to_embedder cache=null", "read other tokens"),
        (
            "multilingual stages.distillation.objectives.hidden_state_cosine."
            "tap=hidden_states",
            "only vectors are compared",
        ),
        ('multilingual student={"checkpoint":"a"}', "is the checkpoint's"),
    ],
)
def test_fields_that_make_other_numbers_are_refused(words, named):
    with pytest.raises(UsageError, match=re.escape(named)):
        made("distill", *words.split(), "--smoke")


def test_stages_have_different_names_and_texts_a_teacher():
    config = made("distill", "tinybert", "--smoke")
    with pytest.raises(ValueError, match="each needs its own name"):
        config.replace(stages=config.stages * 2)
    with pytest.raises(ValueError, match="objectives and a teacher"):
        made("pretrain", "--smoke").replace(teacher="t")


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("name", RECIPES)
def test_a_file_of_init_has_the_fields_of_its_recipe(name, is_whole, capsys):
    assert main(["init", name, "--output", "my.toml"]) == 0
    assert "kdkit distill my.toml" in capsys.readouterr().out
    config = made("distill", "my.toml")
    if is_whole:
        with open("my.toml", encoding="utf-8") as file:
            text = file.read()
        whole = re.sub(r"^# (\w+ = |\[)", r"\1", text, flags=re.M)
        with open("my.toml", "w", encoding="utf-8") as file:
            file.write(whole)
        again = made("distill", "my.toml")
        stages = [
            one.least_updates and 1000 for one in again.stages
        ]  # epochs are given
        assert stages == [0] * len(stages)
        config = config.replace(stages=again.stages)
        assert again == config
    recipe = RECIPES[name]
    assert config.recipe == name
    assert [one.name for one in config.stages] == [
        s.name for s in recipe.stages
    ]


@pytest.mark.parametrize("family", RECIPES["lightpaff"].for_families)
def test_a_file_of_init_has_the_steps_of_a_family(family):
    words = ["init", "lightpaff", "--model", family, "--output", "my.toml"]
    assert main(words) == 0
    config = made("distill", "my.toml", "steps.general.corpus.max_texts=9")
    assert list(config.steps) == ["pretrained", "teacher", "general"]
    recipe = RECIPES["lightpaff"].for_families[family]
    assert config.stages == recipe.stages[-1:]
    assert config_of("my.toml", {}).steps["general"].stages == recipe.stages[:1]


def test_a_files_dictionary_of_layers_is_a_layer_map(folder):
    objective = {"layer_map": {"1": 3, "2": 6}, "weight": 2}
    stages = {
        "intermediate_layer": {"objectives": {"hidden_state_mse": objective}}
    }
    file = {"recipe": "tinybert", "stages": stages}
    (folder / "my.json").write_text(json.dumps(file))
    _, hidden = made("distill", "my.json", "--smoke").stages[0].objectives
    assert (hidden.layer_map, hidden.weight) == ({1: 3, 2: 6}, 2)
