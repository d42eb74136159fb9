"""Sizes of the papers' models, as data.

`paper_parameters` is the count that the paper prints; docs/fidelity.md says
where ours differs and why.
"""

import dataclasses

BERT_VOCABULARY_SIZE = 30522  # word pieces of uncased English BERT
CHINESE_VOCABULARY_SIZE = 21128  # and of Chinese BERT
GPT2_VOCABULARY_SIZE = 50257
MASS_VOCABULARY_SIZE = 32_000  # of both languages together


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT, or of a model of another family.

    Args:
        num_layers: int. Number of transformer blocks (L, TinyBERT's M).
        hidden_dim: int. Width of the hidden states (H, TinyBERT's d').
        num_heads: int. Attention heads per block (A).
        intermediate_dim: int. Width of the feed-forward layers (d'_i).
        vocabulary_size: int. Number of word pieces. Defaults to `30522`.
        max_sequence_length: int. Number of position embeddings; without effect
            on families that have none. Defaults to `512`.
        dropout: float. Dropout rate. Defaults to `0.1`.
        family: string. A key of `kdkit.models.families.ALL_FAMILIES`: `"bert"`,
            `"distil_bert"`, `"roberta"`, `"xlm_roberta"`, `"albert"`,
            `"electra"`, `"deberta_v3"`, `"roformer_v2"`, or one of the decoders
            `"gpt2"` and `"llama3"`. Defaults to `"bert"`.
        embedding_dim: int or `None`. Width of the embeddings of ALBERT and
            ELECTRA, which project them to `hidden_dim`. `None` for
            `hidden_dim`, and for the other families. Defaults to `None`.
        num_key_value_heads: int or `None`. Heads of keys and values of Llama 3,
            each of which several query heads share. `None` for `num_heads`, and
            for the other families. Defaults to `None`.
    """

    num_layers: int
    hidden_dim: int
    num_heads: int
    intermediate_dim: int
    vocabulary_size: int = BERT_VOCABULARY_SIZE
    max_sequence_length: int = 512
    dropout: float = 0.1
    family: str = "bert"
    embedding_dim: int | None = None
    num_key_value_heads: int | None = None


@dataclasses.dataclass(frozen=True)
class BilstmConfig:
    """The sizes of a classifier with one bidirectional LSTM.

    Args:
        units: int. Units of the LSTM in each direction. Defaults to `150`.
        embedding_dim: int. Width of the embeddings. Defaults to `300`.
        intermediate_dim: int. Width of the feed-forward layer. Defaults to
            `400`.
        vocabulary_size: int. Number of word pieces. Defaults to `30522`.
        dropout: float. Dropout rate of embeddings and feed-forward layer.
            Defaults to `0.1`.
        num_texts: int. 1 for sentences, 2 for pairs, whose sentences are read
            apart. Defaults to `1`.
    """

    units: int = 150
    embedding_dim: int = 300
    intermediate_dim: int = 400
    vocabulary_size: int = BERT_VOCABULARY_SIZE
    dropout: float = 0.1
    num_texts: int = 1


@dataclasses.dataclass(frozen=True)
class MassConfig:
    """The sizes of a `kdkit.models.MassBackbone`.

    Args:
        encoder_num_layers: int. Transformer blocks of the encoder.
        decoder_num_layers: int. Transformer blocks of the decoder.
        hidden_dim: int. Width of the hidden states (H).
        num_heads: int. Attention heads per block (A).
        intermediate_dim: int. Width of the feed-forward layers.
        vocabulary_size: int. Tokens of the joint vocabulary, or of the
            encoder's. Defaults to `32000`.
        decoder_vocabulary_size: int or `None`. Tokens of a vocabulary of the
            decoder's own; `None` for a joint one. Defaults to `None`.
        max_sequence_length: int. Number of position embeddings of each half.
            Defaults to `512`.
        dropout: float. Dropout rate. Defaults to `0.1`.
        tied_output: bool. Whether tokens are predicted by their own embeddings,
            transposed, or by weights apart. Defaults to `True`.
    """

    encoder_num_layers: int
    decoder_num_layers: int
    hidden_dim: int
    num_heads: int
    intermediate_dim: int
    vocabulary_size: int = MASS_VOCABULARY_SIZE
    decoder_vocabulary_size: int | None = None
    max_sequence_length: int = 512
    dropout: float = 0.1
    tied_output: bool = True


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named size.

    Args:
        config: `BertConfig`, `BilstmConfig` or `MassConfig`.
        paper: string. Where the size comes from.
        paper_parameters: int or `None`. The paper's parameter count, where it
            prints one.
    """

    config: BertConfig | BilstmConfig | MassConfig
    paper: str
    paper_parameters: int | None = None


TINYBERT = "Jiao et al., 2019 (TinyBERT)"
PATIENT_KD = "Sun et al., 2019 (Patient KD)"
LIGHTPAFF = "Song et al., 2020 (LightPAFF)"

PRESETS = {
    "bert_base_en_uncased": Preset(
        BertConfig(12, 768, 12, 3072),
        "Devlin et al., 2018 (BERT)",
        109_000_000,
    ),
    "tinybert_4_layer_en_uncased": Preset(
        BertConfig(4, 312, 12, 1200), f"{TINYBERT}, table 3", 14_500_000
    ),
    "tinybert_4_layer_wide_en_uncased": Preset(
        BertConfig(4, 768, 12, 3072), f"{TINYBERT}, table 4", 52_200_000
    ),
    "tinybert_6_layer_narrow_en_uncased": Preset(
        BertConfig(6, 312, 12, 1200), f"{TINYBERT}, table 4"
    ),
    "tinybert_6_layer_en_uncased": Preset(
        BertConfig(6, 768, 12, 3072), f"{TINYBERT}, table 4", 67_000_000
    ),
    "bert_3_layer_en_uncased": Preset(
        BertConfig(3, 768, 12, 3072), f"{PATIENT_KD}, table 4", 45_700_000
    ),
    "bert_6_layer_en_uncased": Preset(
        BertConfig(6, 768, 12, 3072), f"{PATIENT_KD}, table 4", 67_000_000
    ),
    "lightpaff_bert_3_layer_en_uncased": Preset(
        BertConfig(3, 512, 8, 2048), f"{LIGHTPAFF}, table 1", 25_000_000
    ),
    "lightpaff_bert_3_layer_zh": Preset(
        BertConfig(3, 512, 8, 2048, CHINESE_VOCABULARY_SIZE),
        f"{LIGHTPAFF}, tables 1 and 10",
        20_000_000,
    ),
    # Table 10 prints how many parameters these have, not their sizes.
    "lightpaff_bert_6_layer_zh": Preset(
        BertConfig(6, 512, 8, 2048, CHINESE_VOCABULARY_SIZE),
        f"{LIGHTPAFF}, table 10",
        30_000_000,
    ),
    "lightpaff_bert_3_layer_narrow_zh": Preset(
        BertConfig(3, 256, 4, 1024, CHINESE_VOCABULARY_SIZE),
        f"{LIGHTPAFF}, table 10",
        8_000_000,
    ),
    "gpt2_medium_en": Preset(
        BertConfig(
            24, 1024, 16, 4096, GPT2_VOCABULARY_SIZE, 1024, family="gpt2"
        ),
        "Radford et al., 2019 (GPT-2)",
        345_000_000,
    ),
    "lightpaff_gpt2_4_layer_en": Preset(
        BertConfig(4, 768, 12, 3072, GPT2_VOCABULARY_SIZE, 1024, family="gpt2"),
        f"{LIGHTPAFF}, table 3",
        67_000_000,
    ),
    "lightpaff_llama3_4_layer_en": Preset(
        BertConfig(
            4,
            768,
            12,
            2048,
            GPT2_VOCABULARY_SIZE,
            family="llama3",
            num_key_value_heads=4,
        ),
        "kdkit: Llama 3's blocks in the sizes of LightPAFF's GPT-2",
    ),
    "mass_6_layer": Preset(
        MassConfig(6, 6, 1024, 16, 4096),
        f"Song et al., 2019 (MASS); {LIGHTPAFF}, table 5",
        213_000_000,
    ),
    "lightpaff_mass_6_4_layer": Preset(
        MassConfig(6, 4, 512, 8, 1024), f"{LIGHTPAFF}, table 5", 42_000_000
    ),
    "distilled_bilstm_en_uncased": Preset(
        BilstmConfig(),
        "Tang et al., 2019 (Distilled BiLSTM); TinyBERT, table 3",
        10_100_000,
    ),
}
