"""The moves of the schedule language: named, checked, one public function a file.

``scheduled`` is what they change: a Scop, its tree, and the steps that led there. ``edit`` and
``local_tile`` are what several share.
"""
