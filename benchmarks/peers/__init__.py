"""Other software beside which Weft is measured, each one optional."""
