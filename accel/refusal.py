"""Why an accelerator does not take a piece of a program: the processor computes it then."""

from __future__ import annotations


class Refusal(Exception):
    """A sentence without a capital and a full stop."""
