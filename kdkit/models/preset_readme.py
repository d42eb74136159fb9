"""`README.md` of a saved preset: what differs where it is loaded without kdkit.

keras-hub loads the preset alone, but reads no `kdkit.json`.
"""

import pathlib

from kdkit.files import write_text
from kdkit.models.ruled_tokenizers import plain_tokenizer
from kdkit.models.ruled_tokenizers import tokenizer_rules

README = "README.md"
HEAD = """# Loading this preset without kdkit

keras-hub loads this preset where kdkit is not installed. It does not read
`kdkit.json`, which `kdkit.models.load_encoder` and kdkit's other loaders apply.
Without kdkit this differs:
"""
NUM_EXAMPLES = 3
# Plain English, then what tokenizers are known to take differently.
SAMPLES = (
    "The film is a charming and often affecting journey.",
    "It's slow -- very, very slow.",
    "Shares rose $1.20, or 3.5 percent, to $35.40 on Friday.",
    "I loved it!!!<br /><br />10/10, would watch again :)",
    "A man in an orange hat starring at something.",
    "Visit https://example.org/a_b?c=1 or write to me@example.org.",
    "An amélie-like café scene, naïve but touching.",
    "Not good\u00a0at\u00a0all.",
    "Ein Mann läuft über die Straße.",
    "Zwei Männer grüßen sich vor einem großen weißen Haus.",
    "Un garçon et une fille jouent près de la forêt.",
    "L'élève a très bien réussi à Noël.",
    "El niño come una piña en São Paulo.",
    "“Curly quotes” – and a dash… or two",
    "It costs 5 € or £4, that is ½ of 10 ₣.",
    "soft\u00adhyphen, zero\u200bwidth and a mark\ufeff",
    "東京タワー is in 東京.",
    "Привет, мир!",
    "So funny 😂😂 👍🏽",
    "e\u0301crit with a combining accent, ﬁnd with a ligature",
)


def save_readme(directory, *notes: str) -> None:
    """Writes the notes into a preset's README, a point each.

    Args:
        directory: path of the preset.
        notes: strings of one paragraph. Empty ones are left out; without any
            note no file is written.
    """
    points = [f"- {note}\n" for note in notes if note]
    if points:
        text = HEAD + "\n" + "".join(points)
        write_text(pathlib.Path(directory) / README, text)


def tokenizer_note(tokenizer) -> str:
    """Returns how many texts keras-hub alone gives other token ids.

    Both tokenizers run on a few sample texts, in English, German, French and
    other languages.

    Args:
        tokenizer: a keras-hub tokenizer, with or without rules for texts, or a
            `kdkit.models.TokenizerPair`.

    Returns:
        String of one paragraph; empty for a tokenizer without rules.
    """
    rules = tokenizer_rules(tokenizer)
    if rules is None:
        return ""
    plain = plain_tokenizer(tokenizer)
    pairs = [
        [list(map(int, row)) for row in rows]
        for rows in zip(
            tokenizer(list(SAMPLES)), plain(list(SAMPLES)), strict=True
        )
    ]
    different = [
        (text, *rows)
        for text, rows in zip(SAMPLES, pairs, strict=True)
        if rows[0] != rows[1]
    ]
    share = f"{100 * len(different) / len(SAMPLES):.0f} %"
    note = (
        f"keras-hub's `{type(plain).__name__}` splits some texts differently: "
        f"{len(different)} of {len(SAMPLES)} sample texts ({share}), most of "
        "them chosen to be difficult, get other token ids, so that the "
        "model's outputs for them differ."
    )
    if rules.truncation_side == "left":
        note += (
            " Texts that are too long lose their end in place of their "
            "beginning (`truncation_side`)."
        )
    examples = [
        f"`{_shown(text)}` is {_pieces(plain, other)} and not "
        f"{_pieces(tokenizer, ours)}"
        for text, ours, other in different[:NUM_EXAMPLES]
    ]
    if not examples:
        return note
    return f"{note} Without kdkit {'; '.join(examples)}."


def _shown(text):
    return "".join(
        one if one.isprintable() else ascii(one)[1:-1] for one in text
    )


def _pieces(tokenizer, ids):
    return f"`{' '.join(map(tokenizer.id_to_token, ids))}`"
