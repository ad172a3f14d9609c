"""Tasks of asyncio that end."""

import asyncio

from pace import rounds

KIND = None


async def work(number):
    body = bytes(2000)
    await asyncio.sleep(0.05)
    return len(body) + number


async def main():
    running = set()
    for number in rounds(200):
        task = asyncio.create_task(work(number))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(0)


asyncio.run(main())
