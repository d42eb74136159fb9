"""The names of the taps."""

OUTPUT_TAPS = ("logits", "embedding_output", "pooled_output")
STATE_TAPS = ("hidden_states", "cls_states")
ATTENTION_TAPS = ("attention_logits", "attention_probs")
VECTOR_TAPS = ("queries", "keys", "values")
PER_LAYER_TAPS = STATE_TAPS + ATTENTION_TAPS + VECTOR_TAPS
TAPS = OUTPUT_TAPS + PER_LAYER_TAPS

CLS_INDEX = 0  # [CLS], or what a tokenizer has in its place, stands first.
# The feature of a batch that stands for running the teachers: a tuple of a dict
# of tensors by `Entry.name` for each of them.
TEACHER_OUTPUTS = "teacher_outputs"
