"""What neurogc asks of the real module of this name."""

import os

__all__ = ["GroupMember", "destroy_process_group", "get_world_size", "init_process_group", "is_initialized"]


class _WorldMeta(type):
    group = None

    @property
    def WORLD(cls):
        return _WorldMeta.group


class GroupMember(metaclass=_WorldMeta):
    pass


def init_process_group(backend):
    _WorldMeta.group = object()


def destroy_process_group():
    _WorldMeta.group = None


def is_initialized():
    return GroupMember.WORLD is not None


def get_world_size():
    return int(os.environ["WORLD_SIZE"])
