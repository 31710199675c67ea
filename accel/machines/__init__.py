"""Accelerators as records: VTA, with its semantics, rules and design space; ``named`` finds
machines."""
