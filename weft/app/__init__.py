"""The command line: ``cli`` has the commands, ``cli_report`` what they print; ``measure`` times
programs.
"""
