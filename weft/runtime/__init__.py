"""Compiled programs: calling them, keeping them, handing them on.

``compiled`` is what the compiler hands over, ``executable`` the callable around it. A call goes
through ``arguments`` → ``call_plan`` → ``call_frame``; ``bound_call`` repeats it. ``artifact`` is
a program as one file, with its ``certificate`` inside, ``cache`` a folder of them, ``library`` an
object file for C.
"""
