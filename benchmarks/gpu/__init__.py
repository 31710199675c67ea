"""Weft's kernels where a GPU is: ``bundle`` writes what is carried there (code, a manifest and
``launcher.py``), whose rows (``rows``) are checked and measured without Weft."""
