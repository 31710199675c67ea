"""The operator graph: rewriting, partitioning into acyclic fused clusters, memory plan."""
