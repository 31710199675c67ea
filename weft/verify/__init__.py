"""``WEFT_VERIFY=full``: every IR interpreted on a small instance, the first pass that diverges
named.

``shrink`` makes the instance, ``oracle`` its data, ``ladder`` climbs from interpreter to
interpreter; ``verify_full`` does so for graphs, ``verify_kernel`` for loop kernels.
"""
