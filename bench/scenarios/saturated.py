"""A service that never rests: a large live heap, and as many clients as keep it busy all the time.

The service of `attribution` with about 1.24 million live objects that the collector tracks, and little work in each
request: what it makes, not what it computes, fills the time. Every other explanation is kept for 400 requests, so it
grows old before it dies.
"""

import attribution

if __name__ == "__main__":
    attribution.main(loop="auto", features=620_000, kept=200, keep_one_in=2, steps=2)
