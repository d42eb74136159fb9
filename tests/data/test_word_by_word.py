"""The generated pairs of English and German."""

from kdkit import data


def test_every_word_is_translated():
    pairs = list(data.generated_pairs())
    assert len(pairs) > 5000
    vocabularies = [
        {word for text in side for word in text.split()}
        for side in zip(*pairs, strict=True)
    ]
    same_in_both = {"elegant", "warm", ",", "."}
    assert vocabularies[0] & vocabularies[1] == same_in_both


def test_a_phrase_is_translated_whole():
    found = dict(data.generated_pairs())
    phrases = {
        "the camera work": "die Kameraführung",
        "not at all": "gar nicht",
        "a bit": "ein wenig",
    }
    for english, german in phrases.items():
        having = [pair for pair in found.items() if english in pair[0]]
        assert having
        assert all(german in translated for _, translated in having)
