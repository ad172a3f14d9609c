"""What vLLM and SGLang load as a plugin, in each of their processes: starts the agent where it is asked for.

It is asked for by its name in the engine's list of plugins, `VLLM_PLUGINS=neurogc` or `SGLANG_PLUGINS=neurogc`, or by
`NEUROGC_POLICY`. Otherwise nothing happens: the package may be installed for something else. Under `neurogc run` the
agent is there already.

This module lies beside the package, because importing the package loads the agent.
"""

import os
import sys


def vllm():
    """The entry point in the group `vllm.general_plugins`."""
    _start("VLLM_PLUGINS")


def sglang():
    """The entry point in the group `sglang.srt.plugins`."""
    _start("SGLANG_PLUGINS")


def _start(allowed):
    # An engine without an agent is better than none: nothing that happens here reaches it.
    try:
        names = {name.strip() for name in os.environ.get(allowed, "").split(",")}
        if "neurogc" in names or os.environ.get("NEUROGC_POLICY"):
            import neurogc

            neurogc.install()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        _say(error)


def _say(error):
    problem = " ".join(f"{type(error).__name__}: {error}".split())
    native = sys.modules.get("neurogc._native")
    try:
        if native is not None:
            native.agent.degrade(f"the plugin could not start: {problem}"[:300])
        print(f"neurogc: this engine runs unobserved: {problem}", file=sys.stderr)
    except Exception:
        pass
