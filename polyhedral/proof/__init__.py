"""The proof: is a schedule legal, and does it compute what the program does? The room to trust.

It imports isl, the IRs and nothing else of Weft, believes nothing that a scheduler says, and has at
most 2,000 lines of code, and 425 about launches (``tests/architecture/test_proof.py``). Compilers
and ``weft check`` run the same. Dependences and flow are this room's own; the scheduler, which
needs them too, imports them from here. Two things there are twice, on purpose: how far apart a loop
runs the ends of a dependence, for the scheduler as a box over many loops (``analysis/delta_box``),
here loop by loop (``loop_distances``); and what a register tile covers, for its code in closed form
(``analysis/tile_domain``), here as relations of instances and elements (``register_tile``).

In this order:

    prove           the whole proof
    legality        accesses inside their tensors; the checks of a Scop and its tree
    order_check     is every dependence kept? by ``carried`` and ``loop_distances``, loop by loop
    dependences     which instance stays before which; ``implied``: pairs that say nothing new
    contraction     is storage that iterations reuse free?
    register_tile   does each register tile own what it keeps?
    memory_claims   is what streams past the caches, or is asked for ahead, left alone?
    validation      instances and storage changed: does each read see the value that it saw?
    flow_under      which write each read sees under a tree; ``flow`` and ``last_writes`` find it
    unchanged       what need not be compared
    gpu             apart from all these: are launches on a GPU, in loop IR, free of races?
"""
