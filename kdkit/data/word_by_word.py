"""English sentences and the same in German, word by word.

For smoke runs of encoder-decoders. The English is that of the generated
sentiment; sentences whose German would have its verb elsewhere are left out.
"""

import re
from collections.abc import Iterator

from kdkit.data.sentiment import CONTRASTS
from kdkit.data.sentiment import load_sentiment

GENERATED_LANGUAGES = ("en", "de")
GERMAN = {
    "the plot": "die Handlung",
    "the acting": "die Darstellung",
    "the story": "die Geschichte",
    "the ending": "das Ende",
    "the cast": "die Besetzung",
    "the script": "das Drehbuch",
    "the music": "die Musik",
    "the pace": "das Tempo",
    "the dialogue": "der Dialog",
    "the camera work": "die Kameraführung",
    "the humor": "der Humor",
    "the direction": "die Regie",
    "the first half": "die erste Hälfte",
    "the hero": "der Held",
    "superb": "großartig",
    "clever": "klug",
    "moving": "bewegend",
    "charming": "reizend",
    "fresh": "frisch",
    "funny": "lustig",
    "gripping": "packend",
    "brilliant": "brillant",
    "warm": "warm",
    "smart": "schlau",
    "elegant": "elegant",
    "memorable": "denkwürdig",
    "thin": "dünn",
    "dull": "fade",
    "boring": "langweilig",
    "clumsy": "plump",
    "stale": "abgestanden",
    "awful": "furchtbar",
    "messy": "wirr",
    "shallow": "seicht",
    "cold": "kalt",
    "silly": "albern",
    "tedious": "zäh",
    "forgettable": "belanglos",
    "is": "ist",
    "was": "war",
    "feels": "wirkt",
    "seems": "scheint",
    "never": "nie",
    "hardly": "kaum",
    "not at all": "gar nicht",
    "by no means": "keineswegs",
    "truly": "wirklich",
    "very": "sehr",
    "extremely": "äußerst",
    "deeply": "zutiefst",
    "a bit": "ein wenig",
    "slightly": "leicht",
    "somewhat": "etwas",
    "mildly": "milde",
    "and": "und",
    "but": "aber",
}
_LONGEST_FIRST = sorted(GERMAN, key=len, reverse=True)
_PHRASE = re.compile(rf"\b({'|'.join(_LONGEST_FIRST)})\b")
_CONTRAST = re.compile(rf"\b({'|'.join(CONTRASTS)})\b")


def generated_pairs() -> Iterator[tuple[str, str]]:
    """Yields some 6,000 English sentences with their German.

    >>> next(generated_pairs())[1].split()[0] in {"der", "die", "das"}
    True
    """
    for sentence in load_sentiment("train").texts[0]:
        if not _CONTRAST.search(sentence):
            yield sentence, _PHRASE.sub(_german, sentence)


def _german(match):
    return GERMAN[match[0]]
