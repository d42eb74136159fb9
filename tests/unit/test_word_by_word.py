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
