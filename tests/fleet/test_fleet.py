"""The hub and systems of others, real ones where they can be had: Prometheus, VictoriaMetrics, gRPC, S3."""

import gzip
import http.server
import ssl
import threading
import urllib.parse
from concurrent import futures

import grpc
import pytest
from hub import Console, Hub
from observed import binary, eventually
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from servers import SERVERS, got, server

pytestmark = pytest.mark.skipif(not binary(), reason="the command is not built")


@pytest.fixture(scope="module")
def program():
    with Console(NEUROGC_SERVICE="shop", NEUROGC_SAMPLE_KIB="1") as console:
        yield console


@pytest.mark.parametrize("name", SERVERS)
def test_a_receiver_of_remote_write_has_the_figures_of_metrics(name, tmp_path, program):
    with server(name, tmp_path) as port:
        with Hub(tmp_path / "hub", "--remote-write", f"http://127.0.0.1:{port}/api/v1/write") as hub:
            hub.wait_for(program.pid)

            def series(query):
                query = urllib.parse.quote(query)
                return got(f"http://127.0.0.1:{port}/api/v1/query?query={query}")["data"]["result"]

            [info] = eventually(lambda: series(f'neurogc_process_info{{pid="{program.pid}"}}'), within=60)
            assert (info["metric"]["service"], info["metric"]["job"]) == ("shop", "neurogc")
            # Every series of the page is there, with the same labels.
            page = hub.ask("GET", "/metrics")[1].decode()
            names = {line.split("{")[0] for line in page.splitlines() if 'service="shop"' in line}
            there = {it["metric"]["__name__"] for it in series('{service="shop"}')}
            assert len(names) > 50 and names <= there, names - there
            [rss] = series('neurogc_memory_rss_bytes{service="shop"}')
            assert float(rss["value"][1]) > 1e6, rss


class Collector(grpc.GenericRpcHandler):
    """Takes every call, and keeps what it brings."""

    def __init__(self):
        self.came = []

    def service(self, call):
        def answer(request, context):
            self.came.append((call.method, dict(context.invocation_metadata()), request))
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls and gzip"])
def test_a_collector_is_called_by_grpc(secure, tmp_path, program, certificate):
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[collector])
    if secure:
        pair = (certificate / "key.pem").read_bytes(), (certificate / "cert.pem").read_bytes()
        port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("localhost:0")
    server.start()
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{'https' if secure else 'http'}://localhost:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip" if secure else "none",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": certificate / "cert.pem",
        "OTEL_METRIC_EXPORT_INTERVAL": 1000,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    try:
        with Hub(tmp_path, "--otlp", "env", variables=variables) as hub:
            hub.wait_for(program.pid)
            check_export(lambda: [(headers, body) for _, headers, body in collector.came], program)
    finally:
        server.stop(0)
    assert {method for method, _, _ in collector.came} == {
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    }


def check_export(came, program):
    """Waits for a message about the program and looks at it."""

    def own():
        for headers, body in came():
            message = ExportMetricsServiceRequest.FromString(body)
            for resource in message.resource_metrics:
                facts = {it.key: it.value for it in resource.resource.attributes}
                if facts["process.pid"].int_value == program.pid:
                    return headers, facts, {metric.name: metric for metric in resource.scope_metrics[0].metrics}
        return None

    headers, facts, metrics = eventually(own, within=30)
    assert headers["x-team"] == "a b"
    assert facts["service.name"].string_value == "shop"
    assert facts["deployment.environment"].string_value == "test"
    [point] = metrics["process.memory.usage"].sum.data_points
    assert point.as_double > 1e6 and point.time_unix_nano > point.start_time_unix_nano > 0
    histogram = next(metric.histogram for metric in metrics.values() if metric.HasField("histogram"))
    assert all(len(point.bucket_counts) == len(point.explicit_bounds) + 1 for point in histogram.data_points)


class Posted(http.server.ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self, certificate=None):
        came = self.came = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.scheme = "https"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_collector_is_posted_protobuf_over_tls(compression, tmp_path, program, certificate):
    with Posted(certificate) as server:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://localhost:{server.server_port}/base",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b",
            "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
            "OTEL_EXPORTER_OTLP_CERTIFICATE": certificate / "cert.pem",
            "OTEL_METRIC_EXPORT_INTERVAL": 1000,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        }
        with Hub(tmp_path, "--otlp", "env", variables=variables) as hub:
            hub.wait_for(program.pid)
            check_export(lambda: [(headers, body) for _, headers, body in server.came], program)
        server.shutdown()
    path, headers, _ = server.came[0]
    assert (path, headers["content-type"]) == ("/base/v1/metrics", "application/x-protobuf")
    assert headers.get("content-encoding", "none") == compression


def test_profiles_are_pushed_to_pyroscope(tmp_path, program):
    program.do("globals().update(kept=[bytearray(5000) for _ in range(2000)])")
    with Posted() as server:
        with Hub(tmp_path) as first:
            first.wait_for(program.pid)
        # The first push is at the start, when the hub has found the program already or not: the second comes a minute later.
        with Hub(tmp_path, "--profiles", f"pyroscope:http://127.0.0.1:{server.server_port}") as hub:
            hub.wait_for(program.pid)
            # A hub finds every process of the machine.
            path, _, body = eventually(lambda: next((it for it in server.came if "name=shop" in it[0]), None), within=90)
        server.shutdown()
    query = urllib.parse.parse_qs(urllib.parse.urlparse(path).query)
    assert query["name"][0].startswith("shop{host=") and query["format"] == ["pprof"]
    assert int(query["until"][0]) - int(query["from"][0]) == 60
    assert body[:2] == b"\x1f\x8b"


def test_profiles_are_written_to_parca(tmp_path, program):
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[collector])
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with Hub(tmp_path, "--profiles", f"parca:http://localhost:{port}") as hub:
            hub.wait_for(program.pid)
            method, _, body = eventually(lambda: next((it for it in collector.came if b"shop" in it[2]), None), within=90)
    finally:
        server.stop(0)
    assert method == "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"
    assert b"__name__" in body and b"shop" in body and b"\x1f\x8b" in body


def test_dumps_and_recordings_are_copied_to_object_storage(tmp_path, program):
    import boto3

    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", "us-east-1", endpoint_url=url, aws_access_key_id="key", aws_secret_access_key="secret")
    client.create_bucket(Bucket="bucket")
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    try:
        with Hub(tmp_path, "--objects", "s3://bucket/gc", variables=variables) as hub:
            hub.wait_for(program.pid)
            heaps = tmp_path / "heaps"
            heaps.mkdir(exist_ok=True)
            (heaps / "big.ngch").write_bytes(b"x" * 3_000_001)

            def listed():
                return {it["Key"]: it["Size"] for it in client.list_objects_v2(Bucket="bucket").get("Contents", [])}

            assert eventually(listed, within=40) == {"gc/heaps/big.ngch": 3_000_001}
            assert client.get_object(Bucket="bucket", Key="gc/heaps/big.ngch")["Body"].read() == b"x" * 3_000_001
    finally:
        server.stop()


def test_requests_to_object_storage_are_signed_as_by_the_library_of_aws(tmp_path):
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    came = []

    class Storage(http.server.BaseHTTPRequestHandler):
        def answer(self, status):
            length = int(self.headers.get("Content-Length") or 0)
            came.append((self.command, self.path, dict(self.headers.items()), self.rfile.read(length)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_HEAD(self):
            self.answer(404)

        def do_PUT(self):
            self.answer(200)

        def log_message(self, *_):
            pass

    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "a.ngct").write_bytes(b"trace")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "se/cret", "AWS_SESSION_TOKEN": "token"}
        with Hub(tmp_path, "--objects", "s3://bucket/gc", variables={"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-west-1", **keys}):
            eventually(lambda: [it for it in came if it[0] == "PUT"], within=30)
        server.shutdown()
    for method, path, headers, body in came:
        assert path == "/bucket/gc/recordings/a.ngct"
        assert method == "HEAD" or body == b"trace"
        sent = {name.lower(): value for name, value in headers.items()}
        signed = {name: sent[name] for name in ("x-amz-content-sha256", "x-amz-date", "x-amz-security-token")}
        request = AWSRequest(method, url + path, headers={"host": sent["host"], **signed})
        request.context["timestamp"] = sent["x-amz-date"]
        library = S3SigV4Auth(Credentials("key", "se/cret", "token"), "s3", "eu-west-1")
        text = library.string_to_sign(request, library.canonical_request(request))
        assert sent["authorization"].endswith("Signature=" + library.signature(text, request))
