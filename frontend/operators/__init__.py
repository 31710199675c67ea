"""Operator definitions: functions from tensors to tensor expressions, one file per family."""
