"""Changes of operators, numbers, conditions and statements, drawn from code."""

import ast
import copy
import random

PACKAGES = "losses taps distillation data training models export"
CONDITIONAL = ast.If | ast.While | ast.IfExp
OPERATORS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn},
    **{ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div},
    **{ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult},
    **{ast.Pow: ast.Mult},
}


def changes(node):
    """Yields pairs of a node and what it may become.

    Docstrings, annotations, decorators and texts of errors stay.
    """
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[number] = OPERATORS[type(operator)]()
            yield node, new
    operator = OPERATORS.get(type(getattr(node, "op", None)))
    if operator and not has_text(node):
        new = copy.copy(node)
        new.op = operator()
        yield node, new
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield node, ast.Constant(node.value - 1)
        yield node, ast.Constant(node.value + 1)
    conditions = [node.test] if isinstance(node, CONDITIONAL) else []
    for test in getattr(node, "ifs", conditions):
        yield test, ast.UnaryOp(ast.Not(), test)
    if is_deletable(node):
        yield node, ast.Pass()
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    yield from changes(one)


def has_text(node):
    """Whether an operator joins or fills strings."""
    return any(
        isinstance(one, ast.JoinedStr)
        or isinstance(getattr(one, "value", 0), str)
        for one in ast.walk(node)
    )


def is_deletable(node):
    """Whether names still have a value without a statement."""
    if isinstance(node, ast.Raise | ast.AugAssign):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if not isinstance(node, ast.Assign):
        return False
    read = {getattr(one, "id", None) for one in ast.walk(node.value)}
    return any(
        isinstance(target, ast.Attribute | ast.Subscript)
        or getattr(target, "id", "") in read
        for target in node.targets
    )


def drawn(tree, count, seed):
    """Returns changes of different lines, each line as likely, by number."""
    by_line = {}
    for package in PACKAGES.split():
        for path in sorted((tree / "kdkit" / package).rglob("*.py")):
            text = path.read_bytes()
            starts = [0]
            for line in text.splitlines(keepends=True):
                starts.append(starts[-1] + len(line))
            for old, new in changes(ast.parse(text)):
                begin = starts[old.lineno - 1] + old.col_offset
                end = starts[old.end_lineno - 1] + old.end_col_offset
                shape = "({})" if isinstance(new, ast.expr) else "{}"
                change = {
                    "file": path.relative_to(tree).as_posix(),
                    "at": len(text[:begin].decode()),
                    "old": text[begin:end].decode(),
                    "new": shape.format(ast.unparse(new)),
                }
                place = change["file"], old.lineno
                by_line.setdefault(place, []).append(change)
    numbers = random.Random(seed)
    lines = numbers.sample(sorted(by_line), count)
    return {n: numbers.choice(by_line[one]) for n, one in enumerate(lines, 1)}
