"""Loop programs that people write and that are in no benchmark suite."""
