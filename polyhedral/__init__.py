"""Affine statement sets, schedules, legality."""
