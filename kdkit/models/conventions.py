"""The prompts and the similarity of an embedder, without Keras.

`config_sentence_transformers.json` contains them, in directories of
sentence-transformers and in kdkit's.
"""

import dataclasses
import json
import pathlib

from kdkit.errors import unknown
from kdkit.io.files import write_text

SETTINGS = "config_sentence_transformers.json"  # these, and the kind
COSINE, DOT, MANHATTAN = "cosine", "dot", "manhattan"
SIMILARITIES = (COSINE, DOT, "euclidean", MANHATTAN)
# The names of a role's prompt in the file; the first one counts.
ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclasses.dataclass(frozen=True)
class Conventions:
    """What comes before an embedder's texts, and how its vectors are compared.

    Args:
        prompts: dict from a name to the text that is put before a text. The
            roles are `"query"` and `"document"`, whose other names are
            `"passage"` and `"corpus"`. Defaults to no prompts.
        default_prompt_name: string or `None`. The prompt of texts that are
            neither queries nor documents. Defaults to `None`, no prompt.
        similarity: string. `"cosine"`, `"dot"`, or the negative distance
            `"euclidean"` or `"manhattan"`. Defaults to `"cosine"`.

    Raises:
        UsageError: (a `ValueError`) for an unknown similarity, or a default
            prompt that is missing.

    >>> Conventions({"query": "query: "}).prompt("query")
    'query: '
    """

    prompts: dict[str, str] = dataclasses.field(default_factory=dict)
    default_prompt_name: str | None = None
    similarity: str = COSINE

    def __post_init__(self):
        if self.similarity not in SIMILARITIES:
            raise unknown("similarity", self.similarity, SIMILARITIES)
        name = self.default_prompt_name
        if name is not None and name not in {*ROLES, *self.prompts}:
            raise unknown("default_prompt_name", name, self.prompts)

    def prompt(self, role: str | None = None) -> str:
        """Returns the prompt of a role, empty if there is none.

        Args:
            role: string. `"query"` or `"document"`; or `None` for other texts,
                which have the default prompt.
        """
        names = ROLES.get(role, (self.default_prompt_name,))
        return next(filter(None, map(self.prompts.get, names)), "")

    @property
    def training_prompts(self) -> tuple[str, ...]:
        """The prompts of texts to learn from, which these have in turn.

        Without a default prompt, each text is a query or a document.
        """
        if self.default_prompt_name is not None:
            return (self.prompt(),)
        return tuple(dict.fromkeys(map(self.prompt, ROLES)))

    def save(self, directory) -> None:
        """Writes the conventions into a directory.

        Args:
            directory: path.
        """
        values = dataclasses.asdict(self)
        values["similarity_fn_name"] = values.pop("similarity")
        text = json.dumps(values, ensure_ascii=False, indent=2)
        write_text(pathlib.Path(directory, SETTINGS), f"{text}\n")


PLAIN = Conventions()
