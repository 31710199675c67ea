"""Processes that compile, try out and measure: ``worker_pool`` starts and feeds them, ``worker``
is one of them.
"""
