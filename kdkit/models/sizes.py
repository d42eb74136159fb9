"""The sizes of the papers' models.

`paper_parameters` is the number that the paper prints; docs/fidelity.md
explains where ours differs.
"""

import dataclasses

# How an embedder makes one vector from the states of an encoder.
POOLINGS = ("mean", "cls", "max")
BERT_VOCABULARY_SIZE = 30522  # word pieces of English BERT, uncased


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT, or of a model from another family.

    Args:
        num_layers: int. Number of transformer blocks (L, TinyBERT's M).
        hidden_dim: int. Width of the hidden states (H, TinyBERT's d').
        num_heads: int. Attention heads per block (A).
        intermediate_dim: int. Width of the feed-forward layers (d'_i).
        vocabulary_size: int. Number of word pieces. Defaults to `30522`.
        max_sequence_length: int. Number of position embeddings. Has no effect
            for families without them. Defaults to `512`.
        dropout: float. Dropout rate. Defaults to `0.1`.
        family: string. A key of `kdkit.models.families.ALL_FAMILIES`: `"bert"`,
            `"distil_bert"`, `"roberta"`, `"xlm_roberta"`, `"albert"`,
            `"electra"`, `"deberta_v3"`, or one of the decoders `"gpt2"`,
            `"llama3"` and `"qwen3"`. Defaults to `"bert"`.
        embedding_dim: int or `None`. Width of the embeddings in ALBERT and
            ELECTRA, which project them to `hidden_dim`. `None` for
            `hidden_dim`, and for other families. Defaults to `None`.
        num_key_value_heads: int or `None`. Number of key and value heads in
            Llama 3 and Qwen 3, each shared by several query heads. `None` for
            `num_heads`, and for other families. Defaults to `None`.
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
            separately. Defaults to `1`.
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
        vocabulary_size: int. Number of tokens in the joint vocabulary.
            Defaults to `32000`.
        max_sequence_length: int. Number of position embeddings of each half.
            Defaults to `512`.
        dropout: float. Dropout rate. Defaults to `0.1`.
        tied_output: bool. Whether logits are computed with the token
            embeddings, transposed, or with separate weights. Defaults to
            `True`.
    """

    encoder_num_layers: int
    decoder_num_layers: int
    hidden_dim: int
    num_heads: int
    intermediate_dim: int
    vocabulary_size: int = 32_000
    max_sequence_length: int = 512
    dropout: float = 0.1
    tied_output: bool = True


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named model size.

    Args:
        config: `BertConfig`, `BilstmConfig` or `MassConfig`.
        paper: string. The source of the size.
        paper_parameters: int or `None`. The paper's parameter count, if it
            prints one.
    """

    config: BertConfig | BilstmConfig | MassConfig
    paper: str
    paper_parameters: int | None = None


TINYBERT = "Jiao et al., 2019 (TinyBERT), table"
PATIENT_KD = "Sun et al., 2019 (Patient KD), table"
LIGHTPAFF = "Song et al., 2020 (LightPAFF), table"
CHINESE = 21128  # word pieces of Chinese BERT
GPT2 = {"vocabulary_size": 50257, "max_sequence_length": 1024, "family": "gpt2"}
GROUPED = {"vocabulary_size": 50257, "num_key_value_heads": 4}

PRESETS = {
    "bert_base_en_uncased": Preset(
        BertConfig(12, 768, 12, 3072), "Devlin et al., 2018 (BERT)", 109_000_000
    ),
    "tinybert_4_layer_en_uncased": Preset(
        BertConfig(4, 312, 12, 1200), f"{TINYBERT} 3", 14_500_000
    ),
    "tinybert_4_layer_wide_en_uncased": Preset(
        BertConfig(4, 768, 12, 3072), f"{TINYBERT} 4", 52_200_000
    ),
    "tinybert_6_layer_narrow_en_uncased": Preset(
        BertConfig(6, 312, 12, 1200), f"{TINYBERT} 4"
    ),
    "tinybert_6_layer_en_uncased": Preset(
        BertConfig(6, 768, 12, 3072), f"{TINYBERT} 4", 67_000_000
    ),
    "bert_3_layer_en_uncased": Preset(
        BertConfig(3, 768, 12, 3072), f"{PATIENT_KD} 4", 45_700_000
    ),
    "bert_6_layer_en_uncased": Preset(
        BertConfig(6, 768, 12, 3072), f"{PATIENT_KD} 4", 67_000_000
    ),
    "lightpaff_bert_3_layer_en_uncased": Preset(
        BertConfig(3, 512, 8, 2048), f"{LIGHTPAFF} 1", 25_000_000
    ),
    # Table 10 prints the parameter counts of these, table 1 the first's sizes.
    "lightpaff_bert_3_layer_zh": Preset(
        BertConfig(3, 512, 8, 2048, CHINESE), f"{LIGHTPAFF} 10", 20_000_000
    ),
    "lightpaff_bert_6_layer_zh": Preset(
        BertConfig(6, 512, 8, 2048, CHINESE), f"{LIGHTPAFF} 10", 30_000_000
    ),
    "lightpaff_bert_3_layer_narrow_zh": Preset(
        BertConfig(3, 256, 4, 1024, CHINESE), f"{LIGHTPAFF} 10", 8_000_000
    ),
    "gpt2_medium_en": Preset(
        BertConfig(24, 1024, 16, 4096, **GPT2),
        "Radford et al., 2019 (GPT-2)",
        345_000_000,
    ),
    "lightpaff_gpt2_4_layer_en": Preset(
        BertConfig(4, 768, 12, 3072, **GPT2), f"{LIGHTPAFF} 3", 67_000_000
    ),
    "lightpaff_llama3_4_layer_en": Preset(
        BertConfig(4, 768, 12, 2048, **GROUPED, family="llama3"),
        "kdkit: Llama 3's blocks in the sizes of LightPAFF's GPT-2",
    ),
    "lightpaff_qwen3_4_layer_en": Preset(
        BertConfig(4, 768, 12, 2048, **GROUPED, family="qwen3"),
        "kdkit: Qwen 3's blocks in the sizes of LightPAFF's GPT-2",
    ),
    "mass_6_layer": Preset(
        MassConfig(6, 6, 1024, 16, 4096),
        f"Song et al., 2019 (MASS); {LIGHTPAFF} 5",
        213_000_000,
    ),
    "lightpaff_mass_6_4_layer": Preset(
        MassConfig(6, 4, 512, 8, 1024), f"{LIGHTPAFF} 5", 42_000_000
    ),
    "distilled_bilstm_en_uncased": Preset(
        BilstmConfig(),
        "Tang et al., 2019 (Distilled BiLSTM); TinyBERT, table 3",
        10_100_000,
    ),
}
