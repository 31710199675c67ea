"""Object code without a linker: read (``elf_file``), merged, brought into this process
(``native_library``).
"""
