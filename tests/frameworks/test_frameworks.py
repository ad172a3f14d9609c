"""Frameworks whose packages are too many for every test run: what is a request in each, counted in real programs."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from observed import binary, command, environment, eventually, run

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")

TELL = """
import json, neurogc
def tell():
    report = neurogc.status()
    routes = sorted(route["route"] for route in report["requests"].get("routes", []))
    print(json.dumps({"count": report["requests"]["count"], "routes": routes, "degraded": report["degraded"]}), flush=True)
"""


def told(code, *words, timeout=120, cwd=None):
    """What a program tells at its end."""
    done = run(sys.executable, "-c", TELL + textwrap.dedent(code), *words, timeout=timeout, cwd=cwd, NEUROGC_POLICY="gap")
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


def test_the_workers_of_ray_have_agents(tmp_path):
    pytest.importorskip("ray")
    report = told("""
        import os, ray
        ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        @ray.remote
        def status():
            import neurogc
            with neurogc.request("task"):
                pass
            return os.getpid(), neurogc.status()["requests"]["count"], neurogc.status()["degraded"]
        pid, count, degraded = ray.get(status.remote())
        assert pid != os.getpid() and count == 1, (pid, count, degraded)
        ray.shutdown()
        tell()
    """, timeout=180)
    assert report["count"] == 0
