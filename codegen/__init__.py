"""Loop IR, host programs and their emitters."""
