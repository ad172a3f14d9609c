"""What is adapted by itself: one small module per server or framework, each with `adapt(module, replace)`.

`adapt` is called with a watched module that was just imported. `replace(owner, name, make)` puts `make(function)` in
the place of `owner.name` and remembers how to undo it. To add an adapter, write its file and list its modules here.
"""

# The module that is watched: the adapter that knows it.
ADAPTERS = {
    "aiohttp.web_app": "aiohttp",
    "asyncio.selector_events": "asyncio_loop",
    "celery.signals": "jobs",
    "django.core.handlers.asgi": "django",
    "django.core.handlers.wsgi": "django",
    "dramatiq.worker": "jobs",
    "flask.app": "flask",
    "granian.asgi": "granian",
    "granian.rsgi": "granian",
    "granian.wsgi": "granian",
    "grpc._server": "grpc",
    "grpc.aio._server": "grpc",
    "gunicorn.arbiter": "gunicorn",
    "gunicorn.workers.base": "gunicorn",
    "gunicorn.workers.gasgi": "gunicorn",
    "hypercorn.app_wrappers": "hypercorn",
    "lightning.pytorch.trainer.call": "lightning",
    "multiprocessing.popen_fork": "process_pools",
    "ipykernel.ipkernel": "ipykernel",
    "pytorch_lightning.trainer.call": "lightning",
    "ray._private.function_manager": "ray",
    "ray.serve._private.replica": "ray",
    "rq.job": "jobs",
    "sglang.srt.managers.scheduler": "sglang",
    "starlette.applications": "starlette",
    "starlette.middleware.wsgi": "bridges",
    "a2wsgi.wsgi": "bridges",
    "asgiref.wsgi": "bridges",
    "torch.cuda": "torch",
    "torch.distributed.distributed_c10d": "torch",
    "torch.optim.optimizer": "torch",
    "torch.utils.data.dataloader": "torch",
    "uvicorn.config": "uvicorn",
    "uvloop": "uvloop",
    "uvicorn.middleware.wsgi": "bridges",
    "vllm.v1.engine.core": "vllm",
    "vllm.v1.executor.abstract": "vllm",
    "vllm.v1.executor.multiproc_executor": "vllm",
    "vllm.v1.executor.uniproc_executor": "vllm",
    "vllm.v1.worker.worker_base": "vllm",
}
