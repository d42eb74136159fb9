"""The tokenizer files in a Hugging Face checkpoint directory.

transformers 5 writes `tokenizer.json` and `tokenizer_config.json`; older
versions wrote vocabularies, `special_tokens_map.json` and `added_tokens.json`.
"""

import dataclasses
import pathlib

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import read_json
from kdkit.models.text_rules import NOT_A_PIECE, AddedToken

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

    def side(self, name: str) -> str:
        """Returns the side on which texts are truncated or padded."""
        section = self.whole.get(name) or {}
        default = section.get("direction", "right").lower()
        return self.config.get(f"{name}_side", default)

    def special_token(self, name: str, default: str) -> str:
        """Returns the text of a named special token, such as `"cls"`."""
        token = self._named.get(f"{name}_token", default)
        return default if token is None else _content(token)

    @property
    def _named(self):
        """The entries of both files; the older file takes precedence."""
        if "added_tokens_decoder" in self.config:
            return self.config
        return {**self.config, **self.special}

    def model(self, kind: str) -> dict:
        """Returns the model in `tokenizer.json`, empty without the file."""
        model = self.whole.get("model", {})
        if model.get("type", kind) != kind:
            raise UsageError(
                f"{self.path / WHOLE} has a model of type {model['type']!r}. "
                f"Expected {kind!r}."
            )
        return model

    def require_class(self, *names) -> None:
        """Raises an error if transformers has another class of tokenizer."""
        if self.class_name not in names:
            known = filter(None, names)
            raise unknown(f"tokenizer in {self.path}", self.class_name, known)

    def require_special(self, tokens: dict) -> list[str]:
        """Raises an error for special tokens that keras-hub does not have."""
        for name, expected in tokens.items():
            token = self.special_token(name, expected)
            if token != expected:
                raise UsageError(
                    f"The tokenizer in {self.path} has {token!r} as "
                    f"{name}_token. Expected {expected!r}."
                )
        return list(dict.fromkeys(tokens.values()))

    def all_tokens(self, pieces: dict, kept_as_text, more=()) -> tuple:
        """Returns the tokens by id, and those to look for in texts first."""
        ids = dict(pieces)
        found = {}
        more = [_token(token) for token in more]
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
        if entries is None:
            named = set(map(_content, self._all_named()))
            for content, number in self.added.items():
                declared[number] = _token(content, content in named)
        else:
            for number, token in entries.items():
                declared[int(number)] = _token(token)
        if entries is None or self.is_whole:
            for token in self.whole.get("added_tokens") or []:
                declared[token["id"]] = _token(token)
        yield from (declared[number] for number in sorted(declared))
        known = {token["content"] for token in declared.values()}
        for token in self._all_named():
            token = _token(token, special=True)
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
            yield from tokens.values() if isinstance(tokens, dict) else tokens

    def _require_simple(self, token):
        content = token["content"]
        is_line = content.splitlines() == [content] and content.strip()
        if token["single_word"] or is_line != content:
            raise UsageError(
                f"Unsupported added token {content!r} in {self.path}. Expected "
                "one line without white space around it, and not single_word."
            )

    def _by_id(self, ids, found):
        """Returns the tokens in the order of their ids."""
        size = max(ids.values()) + 1
        if len(set(ids.values())) < len(ids):
            raise UsageError(
                f"The vocabulary in {self.path} has several tokens of one id."
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
            f"{CONFIG}), which kdkit does not run."
        )
    name = config.get("tokenizer_class") or model.get("tokenizer_class") or ""
    return TokenizerFiles(
        path, config, whole, special, added, str(name).removesuffix("Fast")
    )


def _content(token):
    return _token(token)["content"]


def _token(token, special=False):
    """Returns a token, in JSON a string or an object, with all its flags."""
    if isinstance(token, str):
        token = {"content": token, "special": special}
    flags = {"special": special}
    flags |= {name: token[name] for name in FLAGS if name in token}
    return {
        "content": token["content"],
        "lstrip": False,
        "rstrip": False,
        "single_word": False,
        "normalized": not flags["special"],
        **flags,
    }
