"""Loop kernels: plain Python functions of affine loops, read from their source."""
