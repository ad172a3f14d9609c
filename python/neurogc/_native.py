"""Which agent this process gets: the extension module, or its stand-in where the extension cannot be loaded."""

try:
    from . import _agent as agent
except ImportError as error:
    from . import _fallback as agent

    agent.stand_in_for(error)

Mark = agent.Mark
progress = agent.progress
