"""Ranks of a made-up job: each process is told how many there are."""

from .distributed_c10d import *
