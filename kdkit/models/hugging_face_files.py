"""The tokenizer files in a Hugging Face checkpoint directory.

transformers 5 writes `tokenizer.json` and `tokenizer_config.json`; older
versions wrote vocabularies, `special_tokens_map.json` and `added_tokens.json`.
"""

import dataclasses
import pathlib

from kdkit.errors import UsageError, shortened
from kdkit.io.reading import read_json
from kdkit.models.text_rules import NOT_A_PIECE, SIDES, AddedToken

CONFIG = "tokenizer_config.json"
WHOLE = "tokenizer.json"
# transformers' class names for a tokenizer fully defined by `tokenizer.json`.
WHOLE_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """The contents of a checkpoint's tokenizer files."""

    path: pathlib.Path
    config: dict
    whole: dict
    special: dict
    added: dict
    class_name: str

    @property
    def is_whole(self) -> bool:
        """Whether `tokenizer.json` defines the tokenizer completely."""
        return bool(self.whole) and self.class_name in WHOLE_CLASSES

    def setting(self, name: str, default):
        """Returns a setting from `tokenizer_config.json`."""
        value = self.config.get(name, default)
        kind = bool if default is None else type(default)
        if not (type(value) is kind or (value is None and default is None)):
            raise UsageError(
                f"{self.path / CONFIG} has {shortened(value)} as {name!r}. "
                f"Expected a {kind.__name__}. Restore the file from a copy."
            )
        return value

    def side(self, name: str) -> str:
        """Returns the side on which texts are truncated or padded."""
        section = self.whole.get(name)
        default = "right"
        if isinstance(section, dict):
            default = str(section.get("direction", default)).lower()
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
        """The entries of both files; the older file takes precedence."""
        if "added_tokens_decoder" in self.config:
            return self.config
        return {**self.config, **self.special}

    def model(self, kind: str) -> dict:
        """Returns the model in `tokenizer.json`, empty without the file."""
        model = self.whole.get("model", {})
        if not isinstance(model, dict) or model.get("type", kind) != kind:
            received = model.get("type") if isinstance(model, dict) else model
            raise UsageError(
                f"{self.path / WHOLE} has a model of type "
                f"{shortened(received)}. Expected {kind!r}, as for all models "
                "in this family. Use the checkpoint's own tokenizer."
            )
        return model

    def pieces(self, kind: str) -> dict:
        """Returns the vocabulary in `tokenizer.json`, from piece to id."""
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
        """Raises an error if transformers has another class of tokenizer."""
        if self.class_name not in names:
            raise UsageError(
                f"The tokenizer in {self.path} is a "
                f"{shortened(self.class_name)}. Expected one of "
                f"{[name for name in names if name]}, which splits texts as "
                "this family's models expect. Use a checkpoint with such a "
                "tokenizer."
            )

    def require_special(self, tokens: dict) -> list[str]:
        """Raises an error for special tokens that keras-hub does not have."""
        for name, expected in tokens.items():
            token = self.special_token(name, expected)
            if token != expected:
                raise UsageError(
                    f"The tokenizer in {self.path} has {token!r} as "
                    f"{name}_token. Expected {expected!r}, the only one that "
                    "keras-hub supports. Use a checkpoint with that token."
                )
        return list(dict.fromkeys(tokens.values()))

    def all_tokens(self, pieces: dict, kept_as_text, more=()) -> tuple:
        """Returns the tokens by id, and those to look for in texts first."""
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
        """Yields the added tokens in transformers' order."""
        declared = {}
        entries = self.config.get("added_tokens_decoder")
        whole_tokens = self.whole.get("added_tokens") or []
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
        self._require(isinstance(whole_tokens, list), "added_tokens")
        if entries is None or self.is_whole:
            for token in whole_tokens:
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
        """Yields the special tokens with names, then those without."""
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
            problem = "matches whole words only (single_word)"
        elif content != content.strip() or len(content.splitlines()) != 1:
            problem = "begins or ends with white space, or has several lines"
        if problem is not None:
            raise UsageError(
                f"The added token {shortened(content)} of the tokenizer in "
                f"{self.path} {problem}, which kdkit does not support. Remove "
                "the token from the tokenizer, or use another checkpoint."
            )

    def _by_id(self, ids, found):
        """Returns the tokens in the order of their ids."""
        size = max(ids.values(), default=-1) + 1
        if (
            not ids
            or min(ids.values()) < 0
            or size > 2 * len(ids) + 1000
            or len(set(ids.values())) < len(ids)
        ):
            raise UsageError(
                f"The vocabulary in {self.path} is damaged. Expected one token "
                "for each id from 0. Restore its files from a copy."
            )
        tokens = [NOT_A_PIECE.format(number) for number in range(size)]
        for token, number in ids.items():
            if token in found or "".join(token.split()) == token != "":
                tokens[number] = token
        return tokens


def tokenizer_files(path) -> TokenizerFiles:
    """Reads a tokenizer's files, except for vocabularies of older versions."""
    path = pathlib.Path(path)
    config, whole, special, added, model = (
        read_json(path / name, what) if (path / name).is_file() else {}
        for name, what in (
            (CONFIG, "the config of a tokenizer"),
            (WHOLE, "a tokenizer"),
            ("special_tokens_map.json", "the special tokens of a tokenizer"),
            ("added_tokens.json", "the added tokens of a tokenizer"),
            ("config.json", "the config of a model"),
        )
    )
    if "auto_map" in config:
        raise UsageError(
            f"The tokenizer in {path} needs its own code (auto_map in "
            f"{CONFIG}), which kdkit does not run. Use a checkpoint with a "
            "tokenizer from transformers."
        )
    name = config.get("tokenizer_class") or model.get("tokenizer_class") or ""
    return TokenizerFiles(
        path, config, whole, special, added, str(name).removesuffix("Fast")
    )


def _content(token, path):
    return _token(token, False, path)["content"]


def _token(token, special, path):
    """Returns a token, in JSON a string or an object, with all its flags."""
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
            "Expected a string, or an object with a string as 'content'. "
            "Restore its files from a copy."
        )
    return {"content": content, **flags}
