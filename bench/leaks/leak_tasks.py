"""Tasks of asyncio that wait for an answer that never comes."""

import asyncio

from pace import rounds

KIND = "tasks"
HOLDER = None

waiting = set()


async def wait_for_answer(body):
    await asyncio.get_running_loop().create_future()
    return body


async def main():
    for number in rounds(100):
        task = asyncio.create_task(wait_for_answer(bytes(900)))  # the leak
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(0)


asyncio.run(main())
