"""Twice as much as the service can do for a while, then a load that it can carry: does it come back?

The service of `attribution` with a longer memory: an overload fills it with explanations that are old when the rush is
over, as queues and session stores are filled in earnest.
"""

import attribution

if __name__ == "__main__":
    attribution.main(kept=4000)
