"""Frameworks whose packages are too many for every test run: what is a request in each, counted in real programs."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from observed import binary, command, environment, eventually, run
from service import free_port

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")

TELL = """
import json, neurogc
def tell():
    report = neurogc.status()
    routes = sorted(route["route"] for route in report["requests"].get("routes", []))
    print(json.dumps({"count": report["requests"]["count"], "routes": routes, "degraded": report["degraded"]}), flush=True)
"""


def told(code, *words, timeout=120, cwd=None, **env):
    """What a program tells at its end."""
    words = [sys.executable, "-c", TELL + textwrap.dedent(code), *words]
    done = run(*words, timeout=timeout, cwd=cwd, NEUROGC_POLICY="gap", **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_aiohttp_counts_requests_by_their_routes():
    report = told("""
        import asyncio, aiohttp
        from aiohttp import web
        async def hello(request):
            return web.Response(text=request.match_info["name"])
        async def main():
            app = web.Application()
            app.router.add_get("/hello/{name}", hello)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = site._server.sockets[0].getsockname()[1]
            async with aiohttp.ClientSession() as session:
                for i in range(20):
                    async with session.get(f"http://127.0.0.1:{port}/hello/{i}") as answer:
                        assert await answer.text() == str(i)
                async with session.get(f"http://127.0.0.1:{port}/none") as answer:
                    assert answer.status == 404
            tell()
            await runner.cleanup()
        asyncio.run(main())
    """)
    assert report["count"] == 21 and any("/hello/{name}" in route for route in report["routes"]), report


def test_grpc_counts_the_calls_of_a_server_with_threads():
    report = told("""
        import grpc
        from concurrent import futures
        class Echo(grpc.GenericRpcHandler):
            def service(self, call):
                return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
        server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/shop.Cart/Add")
            for _ in range(10):
                assert call(b"x") == b"x"
        server.stop(None).wait()
        tell()
    """)
    assert report["count"] == 10 and any("/shop.Cart/Add" in route for route in report["routes"]), report


def test_grpc_counts_the_calls_of_a_server_with_asyncio():
    report = told("""
        import asyncio, grpc
        seen = []
        class Outer(grpc.aio.ServerInterceptor):
            async def intercept_service(self, continuation, details):
                seen.append(details.method)
                return await continuation(details)
        async def add(request, context):
            return request
        async def pages(request, context):
            for number in range(3):
                yield request + bytes([number])
        def slow(request, context):
            return request
        async def fail(request, context):
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such cart")
        class Shop(grpc.GenericRpcHandler):
            def service(self, call):
                made = {
                    "/shop.Cart/Add": grpc.unary_unary_rpc_method_handler(add),
                    "/shop.Cart/Pages": grpc.unary_stream_rpc_method_handler(pages),
                    "/shop.Cart/Slow": grpc.unary_unary_rpc_method_handler(slow),
                    "/shop.Cart/Fail": grpc.unary_unary_rpc_method_handler(fail),
                }
                return made.get(call.method)
        async def main():
            server = grpc.aio.server(handlers=[Shop()], interceptors=[Outer()])
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                for _ in range(10):
                    assert await channel.unary_unary("/shop.Cart/Add")(b"x") == b"x"
                parts = [part async for part in channel.unary_stream("/shop.Cart/Pages")(b"x")]
                assert parts == [b"x\\0", b"x\\1", b"x\\2"], parts
                assert await channel.unary_unary("/shop.Cart/Slow")(b"y") == b"y"
                for method, code in (("Fail", grpc.StatusCode.NOT_FOUND), ("None", grpc.StatusCode.UNIMPLEMENTED)):
                    try:
                        await channel.unary_unary("/shop.Cart/" + method)(b"x")
                    except grpc.aio.AioRpcError as error:
                        assert error.code() is code, error
                    else:
                        raise AssertionError(method)
            await server.stop(None)
            assert len(seen) == 14, seen
            tell()
        asyncio.run(main())
    """)
    # A method that is not there is not a call of one.
    wanted = ["/shop.Cart/Add", "/shop.Cart/Fail", "/shop.Cart/Pages", "/shop.Cart/Slow"]
    assert report["count"] == 13 and [it for it in wanted if it not in report["routes"]] == [], report


def test_celery_counts_the_tasks_of_a_worker(tmp_path):
    (tmp_path / "jobs.py").write_text(textwrap.dedent(TELL) + textwrap.dedent("""
        import os, celery
        folder = os.environ["FOLDER"]
        app = celery.Celery("jobs", broker="filesystem://")
        app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder}
        @app.task
        def add(x, y):
            return x + y
        @app.task
        def report(path):
            status = neurogc.status()
            with open(path + ".part", "w") as file:
                json.dump(status["requests"], file)
            os.rename(path + ".part", path)
    """))
    queue = tmp_path / "queue"
    queue.mkdir()
    env = {"FOLDER": str(queue), "NEUROGC_POLICY": "gap"}
    words = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--pool", "prefork", "--concurrency", "1", "-l", "error"]
    with open(tmp_path / "log", "w") as log:
        worker = subprocess.Popen(command(*words), cwd=tmp_path, env=environment(**env), stdout=log, stderr=log)
    try:
        out = tmp_path / "report.json"
        send = f"import jobs; [jobs.add.delay(i, i) for i in range(10)]; jobs.report.delay({str(out)!r})"
        subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, '.'); sys.modules['neurogc'] = sys; " + send],
                       cwd=tmp_path, env={**os.environ, "FOLDER": str(queue)}, check=True)
        eventually(out.exists, within=60)
    finally:
        worker.terminate()
        worker.wait(30)
    requests = json.loads(out.read_text())
    assert requests["count"] == 10 and requests["in_flight"] == 1, (tmp_path / "log").read_text()


def test_rq_counts_the_jobs_of_a_worker():
    report = told("""
        import fakeredis
        from rq import Queue, SimpleWorker
        redis = fakeredis.FakeStrictRedis()
        queue = Queue(connection=redis)
        for number in range(5):
            queue.enqueue(max, number, 1)
        worker = SimpleWorker([queue], connection=redis)
        worker.work(burst=True, logging_level="ERROR")
        tell()
    """)
    assert report["count"] == 5 and any("max" in route for route in report["routes"]), report


def test_rq_counts_a_job_in_the_process_that_is_forked_for_it(tmp_path):
    (tmp_path / "work.py").write_text(textwrap.dedent("""
        import json, neurogc, os
        def note(path):
            report = neurogc.status()
            with open(path, "w") as file:
                json.dump([os.getpid(), report["pid"], report["requests"]["in_flight"], report["degraded"]], file)
    """))
    out = tmp_path / "report.json"
    report = told(f"""
        import os, sys, threading, fakeredis, redis
        sys.path.insert(0, {str(tmp_path)!r})
        from rq import Queue, Worker
        server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = redis.Redis(port=server.server_address[1])
        queue = Queue(connection=connection)
        queue.enqueue("work.note", {str(out)!r})
        Worker([queue], connection=connection).work(burst=True, logging_level="ERROR")
        server.shutdown()
        print(os.getpid())
        tell()
    """)
    pid, known_as, in_flight, degraded = json.loads(out.read_text())
    assert known_as == pid and in_flight == 1 and degraded == [] and report["count"] == 0, (out.read_text(), report)


def test_dramatiq_counts_the_messages_of_a_worker():
    report = told("""
        import dramatiq
        from dramatiq.brokers.stub import StubBroker
        broker = StubBroker()
        dramatiq.set_broker(broker)
        done = []
        @dramatiq.actor
        def note(number):
            done.append(number)
        for number in range(6):
            note.send(number)
        worker = dramatiq.Worker(broker, worker_threads=2)
        worker.start()
        broker.join("default")
        worker.join()
        worker.stop()
        assert sorted(done) == list(range(6))
        tell()
    """)
    assert report["count"] == 6 and any("note" in route for route in report["routes"]), report


def test_a_pool_of_processes_has_an_agent_in_each_of_them():
    report = told("""
        import multiprocessing, os
        def one(number):
            with neurogc.request("job"):
                pass
            return os.getpid(), neurogc.status()["requests"]["count"]
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                found = pool.map(one, range(20), chunksize=1)
            most = {}
            for pid, count in found:
                most[pid] = max(count, most.get(pid, 0))
            assert os.getpid() not in most and sum(most.values()) == 20, most
            tell()
    """)
    assert report["count"] == 0, report


def test_a_jupyter_kernel_counts_cells(tmp_path):
    from jupyter_client import KernelManager

    manager = KernelManager()
    words = [binary(), "run", "--", sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.kernel_spec.argv[:] = words
    manager.start_kernel(env=environment(NEUROGC_POLICY="gap"))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        outputs = []

        def execute(code):
            client.execute_interactive(code, timeout=60, output_hook=lambda message: outputs.append(message))

        for number in range(3):
            execute(f"x = {number}")
        execute("import neurogc, json; print(json.dumps(neurogc.status()['requests']['count']))")
        streams = [it["content"]["text"] for it in outputs if it["msg_type"] == "stream"]
        assert int(streams[-1]) >= 3, outputs
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# Ray gives its own processes 15 s or 30 s to start, which is short on a busy machine.
RAY = """
import os, ray, sys
for attempt in range(1, 7):
    try:
        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        break
    except Exception as error:
        if attempt == 6 or "timed out during startup" not in str(error):
            raise
        ray.shutdown()
"""

# Likewise for a worker, and for the proxy of Serve.
PATIENT = {
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "300",
}


def test_ray_counts_tasks_and_calls_of_actors():
    report = told(RAY + textwrap.dedent("""
        @ray.remote(num_cpus=1)
        def task(number):
            import neurogc
            report = neurogc.status()
            return os.getpid(), report["requests"]["in_flight"], report["degraded"]
        pid, in_flight, degraded = ray.get(task.remote(1))
        assert pid != os.getpid() and in_flight == 1 and degraded == [], (pid, in_flight, degraded)

        @ray.remote(num_cpus=1)
        class Shop:
            def __init__(self):
                self.sold = 0
            def sell(self):
                self.sold += 1
                return self.sold
            @staticmethod
            def name():
                return "shop"
            @classmethod
            def kind(cls):
                return cls.__name__
            def report(self):
                import neurogc
                return neurogc.status()["requests"]
        shop = Shop.remote()
        assert [ray.get(shop.sell.remote()) for _ in range(10)] == list(range(1, 11))
        assert ray.get(shop.name.remote()) == "shop" and ray.get(shop.kind.remote()) == "Shop"
        requests = ray.get(shop.report.remote())
        routes = {route["route"].rsplit(".", 1)[-1]: route["count"] for route in requests["routes"]}
        assert requests["in_flight"] == 1 and routes["sell"] == 10 and routes["name"] == 1, requests
        ray.kill(shop)

        @ray.remote(num_cpus=1)
        class Waiter:
            async def wait(self, number):
                return number
            async def pages(self):
                for number in range(3):
                    yield number
            async def report(self):
                import neurogc
                return neurogc.status()["requests"]
        waiter = Waiter.remote()
        assert ray.get([waiter.wait.remote(number) for number in range(10)]) == list(range(10))
        pages = waiter.pages.options(num_returns="streaming").remote()
        assert [ray.get(page) for page in pages] == [0, 1, 2]
        requests = ray.get(waiter.report.remote())
        routes = {route["route"].rsplit(".", 1)[-1]: route["count"] for route in requests["routes"]}
        assert requests["in_flight"] == 1 and routes["wait"] == 10 and routes["pages"] == 1, requests
        ray.shutdown()
        tell()
    """), timeout=500, **PATIENT)
    assert report["count"] == 0, report


def test_ray_serve_counts_the_requests_of_a_replica():
    report = told(RAY + textwrap.dedent("""
        import urllib.request
        from fastapi import FastAPI
        from ray import serve
        api = FastAPI()
        @serve.deployment(ray_actor_options={"num_cpus": 0.1})
        class Prices:
            def of(self, name):
                return len(name)
            def report(self):
                import neurogc
                return neurogc.status()["requests"]
        @serve.deployment(ray_actor_options={"num_cpus": 0.1})
        @serve.ingress(api)
        class Shop:
            def __init__(self, prices):
                self.prices = prices
            @api.get("/price/{name}")
            async def price(self, name: str):
                return await self.prices.of.remote(name)
            @api.get("/report")
            async def report(self):
                import neurogc
                return [neurogc.status()["requests"], await self.prices.report.remote()]
        port = int(os.environ["SERVE_PORT"])
        serve.start(http_options={"port": port})
        serve.run(Shop.bind(Prices.bind()))
        def get(path):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return json.loads(answer.read())
        for name in ("tea", "bread") * 5:
            assert get("/price/" + name) == len(name)
        shop, prices = get("/report")
        def counts(requests):
            return {route["route"]: route["count"] for route in requests["routes"]}
        assert shop["in_flight"] == 1 and counts(shop) == {"/price/{name}": 10}, shop
        assert prices["in_flight"] == 1 and counts(prices) == {"Prices.of": 10}, prices
        serve.shutdown()
        ray.shutdown()
        tell()
    """), timeout=550, SERVE_PORT=free_port(), **PATIENT)
    assert report["count"] == 0, report


def test_the_part_of_a_replica_that_calls_a_deployment_counts_without_a_cluster():
    report = told("""
        import asyncio
        from types import SimpleNamespace
        from fastapi import FastAPI
        from ray import serve
        from ray.serve._private.common import DeploymentID
        from ray.serve._private.replica import UserCallableWrapper
        api = FastAPI()
        @api.get("/price/{name}")
        async def price(name: str):
            return len(name)
        @serve.deployment
        @serve.ingress(api)
        class Shop:
            def of(self, name):
                if not name:
                    raise ValueError("no name")
                return len(name)
            def pages(self):
                yield from range(3)
        made = Shop.bind()._bound_deployment
        def wrapper(apart):
            return UserCallableWrapper(
                made.func_or_class, (), {}, deployment_id=DeploymentID("Shop", "app"), run_sync_methods_in_threadpool=False,
                run_user_code_in_separate_thread=apart, local_testing_mode=False,
                deployment_config=made._deployment_config, actor_id="none",
            )
        async def main():
            for apart in (True, False):
                shop = wrapper(apart)
                await shop.initialize_callable()
                of, pages, http = (SimpleNamespace(call_method=name) for name in ("of", "pages", "__call__"))
                for _ in range(5):
                    assert await shop.call_user_method(of, ("tea",), {}) == 3
                try:
                    await shop.call_user_method(of, ("",), {})
                except ValueError as error:
                    assert str(error) == "no name"
                else:
                    raise AssertionError
                assert [page async for page in shop.call_user_generator(pages, (), {})] == [0, 1, 2]
                async def receive():
                    return {"type": "http.request", "body": b"", "more_body": False}
                statuses = []
                for path in ("/price/tea", "/price/bread", "/none"):
                    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "",
                             "query_string": b"", "headers": [], "http_version": "1.1", "scheme": "http", "neurogc.counted": True}
                    async for _ in shop.call_http_entrypoint(http, statuses.append, scope, receive):
                        pass
                assert statuses == ["200", "200", "404"], statuses
            tell()
        asyncio.run(main())
    """, timeout=300)
    # Twice: 6 calls, a stream of pages and 3 requests.
    assert report["count"] == 20, report
    assert {"Shop.of", "Shop.pages", "/price/{name}"} <= set(report["routes"]), report
