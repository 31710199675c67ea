"""Operator definitions: functions from tensors to tensor expressions, one file for each family.

``registry`` is the table, ``arguments``, ``sizes`` and ``broadcast`` what all of them share,
``window`` what convolutions and pools do.
"""
