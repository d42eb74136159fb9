"""Beam search with the file of an encoder-decoder, which reads one text."""

import dataclasses

import numpy as np
import scipy.special

from kdkit.decoding.beams import Beams


@dataclasses.dataclass(frozen=True)
class _Open:
    """A text that goes on.

    Args:
        score: float. Its log probability.
        tokens: list of ints.
        state: what the file had read before the last of them.
    """

    score: float
    tokens: list
    state: tuple


def search_file(
    file,
    source_ids,
    first_token_id: int,
    beams: Beams,
    max_length: int,
    end_token_id: int,
) -> tuple[list[int], float]:
    """Writes the likeliest text that a beam search finds.

    What `kdkit.decoding.make_beam_search` finds with the Keras model, one
    source at a time.

    Args:
        file: `kdkit.export.LiteRTSeq2Seq`.
        source_ids: int array of shape `(num_source_tokens,)`.
        first_token_id: int. What a text begins with.
        beams: `Beams`.
        max_length: int. Tokens of a text at most, the first one and its end
            included.
        end_token_id: int. What ends a text.

    Returns:
        Tuple of the tokens, the first one and the end included, and the score.

    Raises:
        UsageError: (a `ValueError`) if the file has no room for so many.
    """
    file.read_source(source_ids)
    texts = [_Open(0.0, [first_token_id], file.state())]
    # Twice as many, since at most one for each beam is an end.
    wanted = 2 * beams.beam_size if beams.beam_size > 1 else 1
    best, best_score, num_finished = None, -np.inf, 0
    while texts:
        scores, states = [], []
        for text in texts:
            file.set_state(text.state)
            logits = file.step(text.tokens[-1]).astype("float32")
            states.append(file.state())
            scores.append(text.score + scipy.special.log_softmax(logits))
        scores = np.stack(scores)
        length = len(texts[0].tokens)
        goes_on = []
        for rank, place in enumerate(_largest(scores, wanted)):
            beam, token = np.unravel_index(place, scores.shape)
            score = float(scores[beam, token])
            tokens = [*texts[beam].tokens, int(token)]
            if token != end_token_id and length + 1 < max_length:
                goes_on.append(_Open(score, tokens, states[beam]))
                continue
            if rank >= beams.beam_size:
                continue
            num_finished += 1
            normalized = score / length**beams.length_penalty
            if normalized > best_score:
                best, best_score = tokens, normalized
        texts = goes_on[: beams.beam_size]
        # A log probability only falls, and the longest text divides it most.
        longest = (max_length - 1) ** beams.length_penalty
        if texts and texts[0].score / longest <= best_score:
            break
        if beams.early_stopping and num_finished >= beams.beam_size:
            break
    return best, best_score


def _largest(scores, count):
    """Places of the largest values, best first; of equals the first places.

    Without sorting a whole vocabulary for every token.
    """
    flat = scores.ravel()
    count = min(count, flat.size)
    least = np.partition(flat, flat.size - count)[flat.size - count]
    places = np.flatnonzero(flat >= least)
    return places[np.argsort(-flat[places], kind="stable")][:count]
