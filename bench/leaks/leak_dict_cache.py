"""A dict used as a cache, without a bound."""

from pace import rounds

KIND = ("unbounded_cache", "unbounded_container")
HOLDER = "__main__.query_cache"

query_cache = {}


def answer(query):
    if query not in query_cache:
        query_cache[query] = {"rows": list(range(1000, 1040)), "query": query}  # the leak
    return query_cache[query]


for number in rounds(200):
    answer(f"select {number}")
