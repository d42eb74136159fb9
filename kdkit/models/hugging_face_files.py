"""The files of a tokenizer in a Hugging Face checkpoint directory.

transformers 5 writes `tokenizer.json` and `tokenizer_config.json`; older
versions wrote vocabularies, `special_tokens_map.json` and `added_tokens.json`.
"""

import dataclasses
import pathlib

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.reading import read_json
from kdkit.models.text_rules import NOT_A_PIECE
from kdkit.models.text_rules import SIDES
from kdkit.models.text_rules import AddedToken

CONFIG = "tokenizer_config.json"
WHOLE = "tokenizer.json"
# What transformers calls a tokenizer that is as its `tokenizer.json` is.
WHOLE_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """What a checkpoint's directory says of its tokenizer.

    Args:
        path: `pathlib.Path` of the directory.
        config: dict. Of `tokenizer_config.json`, empty without one.
        whole: dict. Of `tokenizer.json`, empty without one.
        special: dict. Of `special_tokens_map.json`, empty without one.
        added: dict. Of `added_tokens.json`, empty without one.
        class_name: string. The tokenizer's class in transformers, without
            `Fast`; empty where none is named.
    """

    path: pathlib.Path
    config: dict
    whole: dict
    special: dict
    added: dict
    class_name: str

    @property
    def is_whole(self) -> bool:
        """Whether the tokenizer is as its `tokenizer.json` is.

        If not, transformers takes the vocabulary from there and builds the rest
        from `tokenizer_config.json` and its defaults.
        """
        return bool(self.whole) and self.class_name in WHOLE_CLASSES

    def setting(self, name: str, default):
        """Returns a setting from `tokenizer_config.json`.

        Args:
            name: string.
            default: what it is where the file does not have it, of its type;
                `None` for `True`, `False` or `null`.

        Raises:
            UsageError: (a `ValueError`) for a value of another type.
        """
        value = self.config.get(name, default)
        kind = bool if default is None else type(default)
        if not (type(value) is kind or (value is None and default is None)):
            raise UsageError(
                f"{self.path / CONFIG} has {shortened(value)} as {name!r}. "
                f"Expected a {kind.__name__}. Restore the file from a copy."
            )
        return value

    def side(self, name: str) -> str:
        """Returns the side on which texts are cut or padded.

        Args:
            name: string. `"truncation"` or `"padding"`.

        Raises:
            UsageError: (a `ValueError`) if it is neither `"left"` nor
                `"right"`.
        """
        of_whole = self.whole.get(name)
        default = "right"
        if isinstance(of_whole, dict):
            default = str(of_whole.get("direction", default)).lower()
        side = self.setting(f"{name}_side", default)
        if side not in SIDES:
            raise UsageError(
                f"The tokenizer in {self.path} has {shortened(side)} as "
                f"{name}_side. Expected one of {', '.join(SIDES)}. Correct "
                f"{CONFIG}."
            )
        return side

    def special_token(self, name: str, default: str) -> str:
        """Returns the text of a named special token, such as `"cls"`."""
        token = self._named.get(f"{name}_token", default)
        return default if token is None else _content(token, self.path)

    @property
    def _named(self):
        """What both files have, of which the older one counts more."""
        if "added_tokens_decoder" in self.config:
            return self.config
        return {**self.config, **self.special}

    def model(self, kind: str) -> dict:
        """Returns the model in `tokenizer.json`, empty without the file.

        Args:
            kind: string. The type that it should have, such as `"WordPiece"`.

        Raises:
            UsageError: (a `ValueError`) if it is of another type.
        """
        model = self.whole.get("model", {})
        if not isinstance(model, dict) or model.get("type", kind) != kind:
            received = model.get("type") if isinstance(model, dict) else model
            raise UsageError(
                f"{self.path / WHOLE} has a model of type "
                f"{shortened(received)}. Expected {kind!r}, as the models of "
                "this family read. Use the checkpoint's own tokenizer."
            )
        return model

    def pieces(self, kind: str) -> dict:
        """Returns the vocabulary in `tokenizer.json`, from piece to id.

        Args:
            kind: string, as in `model`.

        Raises:
            UsageError: (a `ValueError`) as `model`, and if it is none.
        """
        pieces = self.model(kind).get("vocab")
        if not isinstance(pieces, dict) or not all(
            type(number) is int for number in pieces.values()
        ):
            raise UsageError(
                f"{self.path / WHOLE} is damaged. Expected a vocabulary of "
                "pieces with their ids. Restore it from a copy."
            )
        return pieces

    def require_class(self, *names) -> None:
        """Refuses a tokenizer of another class than these of transformers.

        Args:
            names: strings, `""` for a tokenizer whose class is not named.

        Raises:
            UsageError: (a `ValueError`) if it is of another class.
        """
        if self.class_name not in names:
            raise UsageError(
                f"The tokenizer in {self.path} is a "
                f"{shortened(self.class_name)}. Expected one of "
                f"{[name for name in names if name]}, which splits texts as "
                "models of this family do. Use a checkpoint with such a "
                "tokenizer."
            )

    def require_special(self, tokens: dict) -> list[str]:
        """Refuses special tokens that keras-hub's class does not have.

        Args:
            tokens: dict from name, such as `"cls"`, to text.

        Returns:
            List of strings, the texts.

        Raises:
            UsageError: (a `ValueError`) if one is another.
        """
        for name, expected in tokens.items():
            token = self.special_token(name, expected)
            if token != expected:
                raise UsageError(
                    f"The tokenizer in {self.path} has {token!r} as "
                    f"{name}_token. Expected {expected!r}, the only one that "
                    "keras-hub has. Use a checkpoint with that token."
                )
        return list(dict.fromkeys(tokens.values()))

    def all_tokens(self, pieces: dict, kept_as_text, more=()) -> tuple:
        """Returns the tokens by id, and those that are found in texts first.

        Tokens that are not in the vocabulary get the next ids in the order of
        the ids that the files name, as transformers does it.

        Args:
            pieces: dict from piece to id, the vocabulary.
            kept_as_text: strings. Special tokens that texts do not have: where
                a text spells one, that is plain text.
            more: added tokens as JSON has them, of a vocabulary that is in
                another file. Defaults to `()`.

        Returns:
            Tuple of a list of strings, and a tuple of `AddedToken`.

        Raises:
            UsageError: (a `ValueError`) for a token that is found in another
                way, and for ids that no vocabulary has.
        """
        ids = dict(pieces)
        found = {}
        more = [_token(token, False, self.path) for token in more]
        for token in (*self._added(), *more):
            content = token["content"]
            if content not in ids:
                ids[content] = max(ids.values(), default=-1) + 1
            if content not in kept_as_text and content not in found:
                self._require_simple(token)
                found[content] = AddedToken(
                    content,
                    ids[content],
                    token["normalized"],
                    token["lstrip"],
                    token["rstrip"],
                    content in pieces,
                )
        return self._by_id(ids, found), tuple(found.values())

    def _added(self):
        """The added tokens as transformers adds them, one after the other."""
        declared = {}
        entries = self.config.get("added_tokens_decoder")
        of_whole = self.whole.get("added_tokens") or []
        if entries is None:
            named = {_content(one, self.path) for one in self._all_named()}
            for content, number in self.added.items():
                special = content in named
                declared[self._id(number)] = _token(content, special, self.path)
        else:
            self._require(isinstance(entries, dict), "added_tokens_decoder")
            for number, token in entries.items():
                number = self._id(int(number[:9]) if number.isdigit() else None)
                declared[number] = _token(token, False, self.path)
        self._require(isinstance(of_whole, list), "added_tokens")
        if entries is None or self.is_whole:
            for token in of_whole:
                self._require(isinstance(token, dict), "added_tokens")
                number = self._id(token.get("id"))
                declared[number] = _token(token, False, self.path)
        yield from (declared[number] for number in sorted(declared))
        known = {token["content"] for token in declared.values()}
        for token in self._all_named():
            token = _token(token, True, self.path)
            if token["content"] not in known:
                known.add(token["content"])
                yield token

    def _all_named(self):
        """The special tokens that have names, and then those without."""
        values = self._named
        names = [f"{name}_token" for name in NAMED]
        names += [
            name
            for name in values
            if name.endswith("_token") and name not in names
        ]
        for name in names:
            if isinstance(values.get(name), str | dict):
                yield values[name]
        for name in EXTRA:
            tokens = values.get(name) or []
            if isinstance(tokens, dict):
                tokens = list(tokens.values())
            self._require(isinstance(tokens, list), name)
            yield from tokens

    def _id(self, number):
        self._require(type(number) is int, "an id of an added token")
        return number

    def _require(self, holds, name):
        if not holds:
            raise UsageError(
                f"The tokenizer in {self.path} is damaged: {name} is not what "
                "transformers writes. Restore its files from a copy."
            )

    def _require_simple(self, token):
        content = token["content"]
        problem = None
        if token["single_word"]:
            problem = "is found as a whole word alone (single_word)"
        elif content != content.strip() or len(content.splitlines()) != 1:
            problem = "begins or ends with white space, or has several lines"
        if problem is not None:
            raise UsageError(
                f"The added token {shortened(content)} of the tokenizer in "
                f"{self.path} {problem}, which kdkit does not follow. Remove "
                "the token from the tokenizer, or use another checkpoint."
            )

    def _by_id(self, ids, found):
        """The tokens in the order of their ids."""
        size = max(ids.values(), default=-1) + 1
        if (
            not ids
            or min(ids.values()) < 0
            or size > 2 * len(ids) + 1000
            or len(set(ids.values())) < len(ids)
        ):
            raise UsageError(
                f"The vocabulary in {self.path} is damaged. Expected each id "
                "from 0 for one token. Restore its files from a copy."
            )
        tokens = [NOT_A_PIECE.format(number) for number in range(size)]
        for token, number in ids.items():
            if token in found or "".join(token.split()) == token != "":
                tokens[number] = token
        return tokens


def tokenizer_files(path) -> TokenizerFiles:
    """Reads the files of a tokenizer but the vocabularies of older versions.

    Args:
        path: path of the directory.

    Raises:
        UsageError: (a `ValueError`) if a file is no JSON object, or the
            tokenizer has code of its own.
    """
    path = pathlib.Path(path)
    config, whole, special, added = (
        read_json(path / name, what) if (path / name).is_file() else {}
        for name, what in (
            (CONFIG, "the config of a tokenizer"),
            (WHOLE, "a tokenizer"),
            ("special_tokens_map.json", "the special tokens of a tokenizer"),
            ("added_tokens.json", "the added tokens of a tokenizer"),
        )
    )
    if "auto_map" in config:
        raise UsageError(
            f"The tokenizer in {path} is code of its own (auto_map in "
            f"{CONFIG}), which kdkit does not run. Use a checkpoint with a "
            "tokenizer of transformers."
        )
    model = read_json(path / "config.json", "the config of a model")
    name = config.get("tokenizer_class") or model.get("tokenizer_class") or ""
    return TokenizerFiles(
        path, config, whole, special, added, str(name).removesuffix("Fast")
    )


def _content(token, path):
    return _token(token, False, path)["content"]


def _token(token, special, path):
    """A token as JSON has it, a text or an object, with all of its flags."""
    if isinstance(token, str):
        token = {"content": token, "special": special}
    flags = {"special": special}
    if isinstance(token, dict):
        flags |= {name: token[name] for name in FLAGS if name in token}
        flags = {
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
            "normalized": not flags["special"],
            **flags,
        }
    content = token.get("content") if isinstance(token, dict) else None
    if (
        not isinstance(content, str)
        or not content
        or not all(type(flag) is bool for flag in flags.values())
    ):
        raise UsageError(
            f"The tokenizer in {path} has the token {shortened(token)}. "
            "Expected a text, or an object with a text as 'content'. Restore "
            "its files from a copy."
        )
    return {"content": content, **flags}
