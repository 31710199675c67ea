"""Models on an accelerator and the processor.

``offload`` takes one program from affine statements to a stream, ``accelerated`` splits a model,
``quantization`` makes it integers first, ``simulator`` runs streams exactly, ``explore`` searches
spaces of machines.
"""
