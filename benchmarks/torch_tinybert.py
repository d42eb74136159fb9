"""TinyBERT's steps as a PyTorch loop over transformers' BERT.

Written from the paper's equations 7 to 10. Models are read from what
`kdkit.export.to_hugging_face` writes, so that a batch has the same losses in
both.
"""

import pathlib
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import BertForSequenceClassification
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

import kdkit
from kdkit import export

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


def read(model):
    """A BERT classifier of keras-hub as one of transformers."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder, "model")
        export.to_hugging_face(model, place)
        return BertForSequenceClassification.from_pretrained(
            place, attn_implementation=SCORES, hidden_act="gelu"
        )


class Distillation:
    """A step of TinyBERT: the intermediate layers, or the prediction.

    Args:
        teacher, student: `BertForSequenceClassification`.
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
        """One update."""
        self.student.train()
        loss = self.loss(batch)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._schedule.step()

    def first_loss(self, batch):
        """The loss of a batch without dropout.

        The teacher's entropy is subtracted, as in kdkit's losses on dev.
        """
        self.student.eval()
        with torch.no_grad():
            loss = self.loss(batch)
            if self._projection is None:
                logits = self.teacher(**batch).logits
                loss = loss - soft_cross_entropy(logits, logits)
            return float(loss)

    def loss(self, batch):
        """The step's loss of a batch of tensors."""
        inside = self._projection is not None
        read = {"output_hidden_states": inside, "output_attentions": inside}
        with torch.no_grad():
            teacher = self.teacher(**batch, **read)
        student = self.student(**batch, **read)
        if not inside:
            return soft_cross_entropy(teacher.logits, student.logits)
        real = batch["attention_mask"].float()
        depths = len(teacher.attentions), len(student.attentions)
        layers = kdkit.layer_map("uniform", *depths)
        pairs = real[:, None, :, None] * real[:, None, None, :]
        loss = 0.0
        for ours, theirs in {0: 0, **layers}.items():
            state = self._projection(student.hidden_states[ours])
            loss = loss + mean_square(
                state - teacher.hidden_states[theirs], real[:, :, None]
            )
        for ours, theirs in layers.items():
            difference = (
                student.attentions[ours - 1] - teacher.attentions[theirs - 1]
            )
            loss = loss + mean_square(difference, pairs)
        return loss


def soft_cross_entropy(teacher, student):
    """The mean cross-entropy of logits."""
    soft_labels = functional.softmax(teacher, dim=-1)
    log_probabilities = functional.log_softmax(student, dim=-1)
    return -(soft_labels * log_probabilities).sum(-1).mean()


def mean_square(difference, weights):
    """Returns the weighted mean of squares."""
    weights = weights.expand_as(difference)
    return (difference.square() * weights).sum() / weights.sum()


def as_tensors(batch, length=None):
    """A batch of `tf.data` as PyTorch's, padded to a length if one is given."""
    tensors = {}
    for theirs, ours in (
        ("input_ids", "token_ids"),
        ("token_type_ids", "segment_ids"),
        ("attention_mask", "padding_mask"),
    ):
        values = np.asarray(batch[ours])
        missing = (length or values.shape[1]) - values.shape[1]
        values = np.pad(values, ((0, 0), (0, missing)))
        tensors[theirs] = torch.tensor(values, dtype=torch.long)
    return tensors


def predict(model, batch):
    """The classes of a batch as a NumPy array."""
    with torch.no_grad():
        return model.eval()(**batch).logits.argmax(-1).numpy()
