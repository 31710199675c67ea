"""A move split into parts of one instruction each, by the ranges of its fields and the loops of a
transfer.

    rows of zeros      if it pads with zeros
    rows of elements   all at once, row by row, or column by column
    a row              in pieces; contiguous elements as rows of one element as a last resort
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.accel.boxes import Move
from weft.accel.capabilities import Span, Transfer
from weft.accel.refusal import Refusal


def split_move(transfer: Transfer, move: Move) -> Iterator[Move]:
    """Raises ``Refusal`` if ``transfer`` cannot do it."""
    if _fits(transfer, move):
        yield move
        return
    width = move.columns_before + move.columns + move.columns_after
    at = move.local
    if move.rows_before or not move.rows:
        yield from _zeros(transfer, move.rows_before, width, at)
        at += move.rows_before * width
    if move.rows:
        inner = replace(move, local=at, rows_before=0, rows_after=0)
        yield from _rows(transfer, inner, width)
        at += move.rows * width
    if move.rows_after:
        yield from _zeros(transfer, move.rows_after, width, at)


def _fits(transfer: Transfer, move: Move) -> bool:
    """Whether one instruction does it. Rows of zeros alone are handled apart."""
    if not move.rows:
        return False
    step = transfer.step
    if move.rows > 1:
        if isinstance(step, str) and not transfer.operation.holds(step, move.step):
            return False
        if not isinstance(step, str) and step != move.step:
            return False
    return _takes(transfer, transfer.rows, move.rows, move.rows_before, move.rows_after) and _takes(
        transfer, transfer.columns, move.columns, move.columns_before, move.columns_after
    )


def _takes(transfer: Transfer, span: Span, size: int, before: int, after: int) -> bool:
    """Whether ``span`` covers that many at once."""
    given = ((span.size, size - span.offset), (span.before, before), (span.after, after))
    return all(
        not value if name is None else transfer.operation.holds(name, value)
        for name, value in given
    )


def _most(transfer: Transfer, span: Span) -> int:
    """The most that ``span`` covers at once."""
    if span.size is None:
        return span.offset
    return transfer.operation.limits_of(span.size)[1] + span.offset


def _rows(transfer: Transfer, move: Move, width: int) -> Iterator[Move]:
    """Rows without rows of zeros around them."""
    most = _most(transfer, transfer.rows)
    if most > 1 and move.rows > 1:  # several rows at once
        for first in range(0, move.rows, most):
            count = min(most, move.rows - first)
            part = replace(
                move,
                local=move.local + first * width,
                main=move.main + first * move.step,
                rows=count,
            )
            if not _fits(transfer, part):
                break
            yield part
        else:
            return
        if first:  # the last ones
            move = replace(
                move,
                local=move.local + first * width,
                main=move.main + first * move.step,
                rows=move.rows - first,
            )
    for row in range(move.rows):
        yield from _row(
            transfer,
            replace(
                move,
                local=move.local + row * width,
                main=move.main + row * move.step,
                rows=1,
                step=0,
            ),
        )


def _row(transfer: Transfer, move: Move) -> Iterator[Move]:
    """One row, in pieces: of columns, or of rows of one element each."""
    if move.columns_before:
        yield from _zeros(transfer, move.columns_before, 1, move.local)
    at = move.local + move.columns_before
    columns, rows = _most(transfer, transfer.columns), _most(transfer, transfer.rows)
    if columns >= rows:
        pieces = _pieces(move.columns, columns)
    else:
        pieces = _pieces(move.columns, rows)
    done = 0
    for count in pieces:
        piece = Move(at + done, move.main + done, 1, count, 0)
        if columns < rows:
            piece = Move(at + done, move.main + done, count, 1, 1 if count > 1 else 0)
        if not _fits(transfer, piece):
            raise Refusal(f"{transfer.operation.name} cannot move {count} elements that are left")
        yield piece
        done += count
    if move.columns_after:
        yield from _zeros(transfer, move.columns_after, 1, at + move.columns)


def _pieces(count: int, most: int) -> Iterator[int]:
    for first in range(0, count, most):
        yield min(most, count - first)


def _zeros(transfer: Transfer, rows: int, width: int, local: int) -> Iterator[Move]:
    """Rows of zeros."""
    if rows and width and needs_rows(transfer):
        yield from _around_one(transfer, rows * width, local)
        return
    span = transfer.rows
    if span.before is None or not _takes(transfer, span, 0, 0, 0):
        raise Refusal(f"{transfer.operation.name} cannot fill with zeros")
    most = transfer.operation.limits_of(span.before)[1]
    if rows and most < 1:
        raise Refusal(f"{transfer.operation.name} cannot fill with zeros")
    for first, count in zip(range(0, rows, most), _pieces(rows, most), strict=True):
        piece = Move(local + first * width, 0, 0, width, 0, count)
        if not _takes(transfer, transfer.columns, width, 0, 0):
            raise Refusal(f"{width} zeros do not fit into {transfer.operation.name}")
        yield piece


def needs_rows(transfer: Transfer) -> bool:
    """Whether it pads with zeros, but only around elements that it reads."""
    spans = transfer.rows, transfer.columns
    fills = any(span.before is not None or span.after is not None for span in spans)
    return fills and not _takes(transfer, transfer.rows, 0, 0, 0)


def _around_one(transfer: Transfer, count: int, local: int) -> Iterator[Move]:
    """``count`` zeros in a row, as padding around a zero that is read."""
    if not all(_takes(transfer, span, 1, 0, 0) for span in (transfer.rows, transfer.columns)):
        raise Refusal(f"{transfer.operation.name} cannot read one zero")
    while count:
        before, after, width = _around(transfer, transfer.columns, count)
        above, below, height = _around(transfer, transfer.rows, count // width)
        yield Move(local, 0, 1, 1, 0, above, below, before, after, blank=True)
        local, count = local + width * height, count - width * height


def _around(transfer: Transfer, span: Span, most: int) -> tuple[int, int, int]:
    """(before, after, in all) of the padding of one element, ``most`` at most."""
    room = most - 1
    before, after = (
        0 if name is None else transfer.operation.limits_of(name)[1]
        for name in (span.before, span.after)
    )
    before = min(before, room)
    after = min(after, room - before)
    return before, after, before + 1 + after
