"""A graph as one tensor program: who computes and who reads what, across nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from weft.graph.rebuild import rebuild
from weft.ir.operator_graph import Graph, Value
from weft.ir.scalar_expr import Expr, walk
from weft.ir.tensor_expr import Compute, Operation, Reduce, Tensor, tensors_read

Key = Tensor | tuple[Operation, int]
SEARCHED = 4096  # operations that one question is about


class WholeProgram:
    """All nodes of ``graph``, each on what the others compute; linear in its size.

    ``home``: the number of each operation's node, producers first; ``number``: its place among
    these; ``values``: those of the graph by tensor; ``readers`` of an operation's results;
    ``final``: the operations of outputs.
    """

    def __init__(self, graph: Graph) -> None:
        tensors: dict[str, Tensor] = {}
        self.home: dict[Operation, int] = {}
        self.values: dict[Key, Value] = {}
        self.readers: dict[Operation, set[Operation]] = {}
        for number, node in enumerate(graph.nodes):
            for v in node.inputs:
                if v.name not in tensors:
                    tensors[v.name] = Tensor(v.name, v.shape, v.dtype)
                    self.values[tensors[v.name]] = v
            made, results = rebuild(node.program, [tensors[v.name] for v in node.inputs])
            for operation in made.values():
                self.home[operation] = number
                self.readers[operation] = set()
                for source in _inner(operation):
                    self.readers[source].add(operation)
            for v, tensor in zip(node.outputs, results, strict=True):
                tensors[v.name] = tensor
                self.values.setdefault(key_of(tensor), v)
        self.final = {tensors[v.name].operation for v in graph.outputs if v.name in tensors}
        self.number = {operation: k for k, operation in enumerate(self.home)}
        self._crowd = Counter(self.home.values())

    @property
    def operations(self) -> Iterable[Operation]:
        """All operations, producers first."""
        return self.home.keys()

    def value_of(self, operation: Operation) -> Value | None:
        """The value that ``operation`` computes, if its node does nothing else."""
        alone = self._crowd[self.home[operation]] == 1
        return self.values.get((operation, 0)) if alone else None

    def only_for(self, own: Iterable[Operation], these: Iterable[Operation]) -> set[Operation]:
        """Of ``these``, what nothing but ``own`` needs, directly or through others of these."""
        found = set(own)
        for operation in sorted(these, key=self.number.__getitem__, reverse=True):
            if operation not in self.final and self.readers[operation] <= found:
                found.add(operation)
        return found.difference(own)

    def needs(self, operation: Operation, known: dict[Operation, bool]) -> bool:
        """Whether ``operation`` is one of those that are ``known`` as True, or reads such; what
        comes before the first of these does not. ``known`` grows by what is found out; once that
        is more than ``SEARCHED``, what is not known counts as needing them."""
        first = self.number[next(iter(known))]
        stack = [operation]
        while stack:
            if len(known) > SEARCHED:
                return known.get(operation, True)
            last = stack[-1]
            inner = _inner(last)
            unknown = [o for o in inner if o not in known and self.number[o] > first]
            if last in known or not unknown:
                known.setdefault(last, any(known.get(o, False) for o in inner))
                stack.pop()
            else:
                stack += unknown
        return known[operation]


def _inner(operation: Operation) -> list[Operation]:
    return [t.operation for t in operation.reads if t.operation is not None]


def key_of(tensor: Tensor) -> Key:
    """The same for all tensors that are one result of one operation."""
    return tensor if tensor.operation is None else (tensor.operation, tensor.index)


def sources(expr: Expr) -> list[Operation]:
    """The operations that ``expr`` loads from."""
    return [t.operation for t in tensors_read([expr]) if t.operation is not None]


def computed(expr: Expr) -> Iterator[Compute]:
    """Those of them that compute one value for each place on its own."""
    for operation in sources(expr):
        if isinstance(operation, Compute) and not operation.scan and len(operation.values) == 1:
            yield operation


def reduces(operation: Compute) -> bool:
    """Whether ``operation`` folds."""
    return any(isinstance(n, Reduce) for value in operation.values for n in walk(value))
