"""The service of leak_service.py with a bound for its tokens."""

import leak_service

if __name__ == "__main__":
    leak_service.main(bound=5_000)
