"""Region -> two regions, one after the other: where import needs data that is expensive to compute.

What stands before the cut is then computed once, and its results are inputs of what follows.
"""

from __future__ import annotations

from weft.frontend.onnx.onnx_graph import Region, captured


def cut_region(region: Region, index: int) -> tuple[Region, Region]:
    """The nodes before ``index`` and those from it on; each reads its inputs as captures.

    The first gives what the second or the region's outputs need of it, the second what it defines
    of the region's outputs.
    """
    before, after = region.nodes[:index], region.nodes[index:]
    needed = {name for node in after for name in node.reads} | set(region.outputs)
    parts = []
    for title, nodes in (("before", before), ("after", after)):
        names = [name for node in nodes for name in node.outputs if name in needed]
        outputs = tuple(n for n in names if nodes is before or n in region.outputs)
        reads = captured((), {}, nodes, ())
        parts.append(Region(f"{region.name}.{title}", (), outputs, nodes, {}, reads))
    return parts[0], parts[1]
