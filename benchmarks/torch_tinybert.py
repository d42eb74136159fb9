"""TinyBERT's steps as a PyTorch loop over transformers' `BertModel`.

Written from the paper's equations 7 to 10. Models get the weights of Keras
models, so that a batch has the same losses in both.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

SCORES = "scores"  # attention that also returns the softmax's input
UNDECAYED = ("bias", "LayerNorm.weight")


def attention_with_scores(
    module, query, key, value, attention_mask, scaling, dropout=0.0, **unused
):
    """The attended values, and the scores before the mask is added.

    The mask of a batch without padding is None.
    """
    scores = query @ key.transpose(2, 3) * scaling
    masked = scores if attention_mask is None else scores + attention_mask
    probabilities = functional.softmax(masked, dim=-1)
    probabilities = functional.dropout(
        probabilities, dropout, training=module.training
    )
    return (probabilities @ value).transpose(1, 2), scores


AttentionInterface.register(SCORES, attention_with_scores)
AttentionMaskInterface.register(SCORES, eager_mask)


class Classifier(nn.Module):
    """A BERT with a head, with the weights of a keras-hub classifier.

    Args:
        model: `keras_hub.models.BertTextClassifier`.
    """

    def __init__(self, model):
        super().__init__()
        backbone = model.backbone
        self.bert = BertModel(
            BertConfig(
                vocab_size=backbone.vocabulary_size,
                hidden_size=backbone.hidden_dim,
                num_hidden_layers=backbone.num_layers,
                num_attention_heads=backbone.num_heads,
                intermediate_size=backbone.intermediate_dim,
                max_position_embeddings=backbone.max_sequence_length,
                attn_implementation=SCORES,
            )
        )
        self.width = backbone.hidden_dim
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(backbone.hidden_dim, model.output_shape[-1])
        self._copy({w.path: w.numpy() for w in model.weights})

    def forward(self, batch, all_layers=False):
        """Logits, hidden states from the embeddings on, attention scores."""
        output = self.bert(
            batch["token_ids"],
            attention_mask=batch["padding_mask"],
            token_type_ids=batch["segment_ids"],
            output_hidden_states=all_layers,
            output_attentions=all_layers,
        )
        logits = self.head(self.dropout(output.pooler_output))
        return logits, output.hidden_states, output.attentions

    def _copy(self, weights):
        """Fills in the weights by their Keras paths."""

        def put(module, path, norm=False):
            first, second = ("gamma", "beta") if norm else ("kernel", "bias")
            bias = weights[f"{path}/{second}"].reshape(-1)
            kernel = weights[f"{path}/{first}"]
            if not norm:
                # (in, out), where either may be split into heads
                kernel = kernel.reshape(module.in_features, -1).T
            with torch.no_grad():
                module.weight.copy_(torch.tensor(np.ascontiguousarray(kernel)))
                module.bias.copy_(torch.tensor(bias))

        embeddings = self.bert.embeddings
        for name, table in (
            ("token", embeddings.word_embeddings),
            ("position", embeddings.position_embeddings),
            ("segment", embeddings.token_type_embeddings),
        ):
            with torch.no_grad():
                values = weights[f"{name}_embedding/embeddings"]
                table.weight.copy_(torch.tensor(values))
        put(embeddings.LayerNorm, "embeddings_layer_norm", norm=True)
        for number, block in enumerate(self.bert.encoder.layer):
            place = f"transformer_layer_{number}"
            attention = f"{place}/self_attention_layer"
            for name in ("query", "key", "value"):
                put(getattr(block.attention.self, name), f"{attention}/{name}")
            put(block.attention.output.dense, f"{attention}/attention_output")
            put(block.attention.output.LayerNorm, f"{attention}_norm", True)
            dense = f"{place}/feedforward"
            put(block.intermediate.dense, f"{dense}_intermediate_dense")
            put(block.output.dense, f"{dense}_output_dense")
            put(block.output.LayerNorm, f"{dense}_layer_norm", norm=True)
        put(self.bert.pooler.dense, "pooled_dense")
        put(self.head, "logits")


class Distillation:
    """A stage of TinyBERT: the intermediate layers, or the prediction.

    Args:
        teacher, student: `Classifier`.
        learning_rate: float. The highest learning rate.
        num_steps: int or `None`. Updates over which it falls to 0 after a
            warm-up of a tenth of them; `None` for a constant one.
        kernel: array of shape `(student's width, teacher's width)`, the initial
            projection of the intermediate step, or `None` for the prediction
            step.
    """

    def __init__(self, teacher, student, learning_rate, num_steps, kernel):
        self.teacher, self.student = teacher.eval(), student
        self._projection = None
        trained = [student]
        if kernel is not None:
            self._projection = nn.Linear(*kernel.shape)
            with torch.no_grad():
                self._projection.weight.copy_(torch.tensor(kernel.T.copy()))
                self._projection.bias.zero_()
            trained.append(self._projection)
        groups = {True: [], False: []}
        for module in trained:
            for name, parameter in module.named_parameters():
                groups[name.endswith(UNDECAYED)].append(parameter)
        self._optimizer = torch.optim.AdamW(
            [
                {"params": groups[False], "weight_decay": 0.01},
                {"params": groups[True], "weight_decay": 0.0},
            ],
            lr=learning_rate,
            eps=1e-6,
        )

        def factor(step):
            if num_steps is None:
                return 1.0
            warmup = 0.1 * num_steps
            falling = (num_steps - step) / (num_steps - warmup)
            return max(0.0, min(step / warmup, falling))

        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, factor
        )

    def step(self, batch):
        """One update; returns the loss before it."""
        self.student.train()
        loss = self.loss(batch)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._schedule.step()
        return float(loss.detach())

    def first_loss(self, batch):
        """The loss of a batch without dropout."""
        self.student.eval()
        with torch.no_grad():
            return float(self.loss(batch))

    def loss(self, batch):
        """The stage's loss of a batch of tensors."""
        inside = self._projection is not None
        with torch.no_grad():
            teacher = self.teacher(batch, inside)
        student = self.student(batch, inside)
        if not inside:
            soft_labels = functional.softmax(teacher[0], dim=-1)
            log_probabilities = functional.log_softmax(student[0], dim=-1)
            return -(soft_labels * log_probabilities).sum(-1).mean()
        real = batch["padding_mask"].float()
        _, teacher_states, teacher_scores = teacher
        _, student_states, student_scores = student
        every = len(teacher_scores) // len(student_scores)
        loss = 0.0
        for number, state in enumerate(student_states):
            loss = loss + mean_square(
                self._projection(state) - teacher_states[number * every],
                real[:, :, None],
            )
        pairs = real[:, None, :, None] * real[:, None, None, :]
        for number, scores in enumerate(student_scores, start=1):
            loss = loss + mean_square(
                scores - teacher_scores[number * every - 1], pairs
            )
        return loss


def mean_square(difference, weights):
    """Returns the weighted mean of squares."""
    weights = weights.expand_as(difference)
    return (difference.square() * weights).sum() / weights.sum()


def as_tensors(batch, length=None):
    """A batch of `tf.data` as PyTorch's, padded to a length if one is given."""
    tensors = {}
    for name, values in batch.items():
        values = values.numpy()
        if length is not None:
            missing = length - values.shape[1]
            values = np.pad(values, ((0, 0), (0, missing)))
        tensors[name] = torch.tensor(values, dtype=torch.long)
    return tensors


def predict(model, batch):
    """The logits of a batch as a NumPy array."""
    with torch.no_grad():
        return model.eval()(batch)[0].numpy()
