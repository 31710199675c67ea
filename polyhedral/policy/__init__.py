"""How loop programs are scheduled: which loops, in which order, in which tiles."""
