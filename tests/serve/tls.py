#!/usr/bin/env python3
"""A server with TLS: versions, protocols, streams, and clients that do not use TLS, stop in the handshake or send random bytes.

usage: tls.py MAKAR
"""
import http.client
import json
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import warnings

from serving import PATIENCE, Server, Stalls, check, failures, wait_until

TEXT = "/v1/completions"
TIMEOUT = 120 * PATIENCE


def make_certificate(folder, name):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return str(cert), str(key)


def context(cert, version=None, alpn=None):
    out = ssl.create_default_context(cafile=cert)
    if version:
        out.minimum_version = out.maximum_version = version
    if alpn:
        out.set_alpn_protocols(alpn)
    return out


def handshake(s, client):
    """-> (version, protocol) or the error's name"""
    try:
        with socket.create_connection((s.host, s.port), timeout=TIMEOUT) as link:
            with client.wrap_socket(link, server_hostname="localhost") as tls:
                return tls.version(), tls.selected_alpn_protocol()
    except (ssl.SSLError, ConnectionError) as e:
        return type(e).__name__, None


def good_clients(s, cert):
    link = http.client.HTTPSConnection("localhost", s.port, context=context(cert), timeout=TIMEOUT)
    for i in range(3):  # on one connection
        link.request("POST", TEXT, json.dumps({"prompt": "a", "max_tokens": 4, "temperature": 0}))
        answer = link.getresponse()
        check(answer.status == 200 and json.loads(answer.read())["choices"], f"request {i} over TLS")
    link.request("POST", TEXT, json.dumps({"prompt": "a", "max_tokens": 40, "stream": True, "logit_bias": {"256": -1000}}))
    text = link.getresponse().read().decode()
    check(text.count("data: ") > 20 and text.endswith("data: [DONE]\n\n"), f"a stream over TLS: {text[-200:]}")
    big = json.dumps({"prompt": "a", "max_tokens": 1, "user": "x" * 3_000_000})
    link.request("POST", TEXT, big)
    answer = link.getresponse()
    check(answer.status == 200 and answer.read(), "a body of many TLS records is read")
    link.close()
    if shutil.which("curl"):
        done = subprocess.run(["curl", "-sS", "--cacert", cert, f"https://localhost:{s.port}{TEXT}", "-d",
                               '{"prompt":"a","max_tokens":3}'], capture_output=True, text=True, timeout=TIMEOUT)
        check(done.returncode == 0 and "choices" in done.stdout, f"curl: {done}")


def versions(s, cert):
    version = ssl.TLSVersion
    check(handshake(s, context(cert, version.TLSv1_3, ["http/1.1"])) == ("TLSv1.3", "http/1.1"), "TLS 1.3")
    check(handshake(s, context(cert, version.TLSv1_2, ["h2", "http/1.1"])) == ("TLSv1.2", "http/1.1"), "TLS 1.2")
    check(handshake(s, context(cert))[1] is None, "a client that offers no protocol is accepted")
    check(handshake(s, context(cert, None, ["h2"]))[1] is None, "another protocol alone is refused")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    warnings.simplefilter("ignore", DeprecationWarning)
    old.minimum_version, old.maximum_version = version.TLSv1, version.TLSv1_1
    check(handshake(s, old)[0].endswith("Error"), "TLS 1.1 is refused")
    weak = context(cert, version.TLSv1_2)
    weak.set_ciphers("AES128-SHA:AES256-SHA:@SECLEVEL=0")
    check(handshake(s, weak)[0].endswith("Error"), "ciphers without forward secrecy are refused")


def broken_clients(s, cert):
    answer = s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    check(answer.startswith(b"HTTP/1.1 400") and b"https" in answer, f"plain HTTP gets an error that says so: {answer[:200]}")
    rng = random.Random(1)
    hello = bytes.fromhex("160301") + (300).to_bytes(2, "big") + b"\x01\x00\x01\x28\x03\x03"
    for i in range(300):
        noise = rng.randbytes(rng.randrange(1, 2000))
        with socket.create_connection((s.host, s.port), timeout=TIMEOUT) as link:
            try:
                link.sendall(hello + noise if i % 2 else noise)
                if i % 3 == 0:
                    link.recv(100)
            except (ConnectionError, socket.timeout):
                pass
    # Clients that disconnect at any byte of the handshake.
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(cert).wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    first = outgoing.read()
    for cut in range(0, len(first), 7):
        with socket.create_connection((s.host, s.port), timeout=TIMEOUT) as link:
            link.sendall(first[:cut])
    # A client that closes its socket in the middle of a stream, without the TLS closing message.
    with socket.create_connection((s.host, s.port), timeout=TIMEOUT) as link:
        tls = context(cert).wrap_socket(link, server_hostname="localhost")
        body = b'{"prompt":"a","max_tokens":2000,"stream":true,"logit_bias":{"256":-1000}}'
        tls.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        tls.recv(100)
        link.close()


def half_open(s):
    """A client that connects and sends nothing, or only a part of the handshake, is disconnected after --client-time (2 s)."""
    links = []
    for data in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
        link = socket.create_connection((s.host, s.port), timeout=TIMEOUT)
        link.sendall(data)
        links.append(link)
    start = time.monotonic()
    with Stalls() as stalls:
        for link in links:
            try:
                check(link.recv(100) == b"", "a silent client gets no answer")
            except ConnectionError:
                pass
            link.close()
    took = time.monotonic() - start
    check(took < stalls.allowed(10), f"a silent client is disconnected after {took:.1f} s")


def lingering(s, cert):
    """Clients that get their answer with "Connection: close" and keep the socket open: the server stops waiting for their
    closing message after 2 seconds, and nothing of the connection is used afterwards."""
    links = []
    for i in range(8):
        link = context(cert).wrap_socket(socket.create_connection((s.host, s.port), timeout=TIMEOUT), server_hostname="localhost")
        head = (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"nonsense\r\n\r\n",
                b"GET /v1/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")[i % 4]
        link.sendall(head)
        check(link.recv(1000).startswith(b"HTTP/1.1 "), f"{head[:30]!r} is answered")
        links.append(link)
    time.sleep(4)
    for link in links:
        link.close()
    check(s.process.poll() is None, f"the server runs: {s.process.poll()}")


def bad_files(makar, s, folder, cert, key):
    other_cert, _ = make_certificate(folder, "other")
    junk = folder / "junk.pem"
    junk.write_text("no certificate")
    encrypted_key = str(folder / "encrypted.key")
    subprocess.run(["openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:secret", "-out", encrypted_key], check=True, capture_output=True)
    for flags, word in ((["--tls-cert", cert], "needs both"), (["--tls-key", key], "needs both"),
                        (["--tls-cert", str(junk), "--tls-key", key], "--tls-cert"),
                        (["--tls-cert", str(folder / "none"), "--tls-key", key], "--tls-cert"),
                        (["--tls-cert", cert, "--tls-key", str(junk)], "--tls-key"),
                        (["--tls-cert", cert, "--tls-key", encrypted_key], "--tls-key"),
                        (["--tls-cert", other_cert, "--tls-key", key], "--tls-key")):
        done = subprocess.run([makar, "serve", "-m", str(s.model), "--port", "0", *flags], capture_output=True, text=True,
                              timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        check(done.returncode in (1, 2) and word in done.stderr, f"serve {flags}: {done.returncode} {done.stderr}")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cert, key = make_certificate(folder, "own")
        with Server(makar, "-t", "1", "--ssl-cert-file", cert, "--ssl-key-file", key, "--client-time", "2") as s:
            before = s.descriptors()
            good_clients(s, cert)
            versions(s, cert)
            broken_clients(s, cert)
            half_open(s)
            lingering(s, cert)
            bad_files(makar, s, folder, cert, key)
            good_clients(s, cert)
            check(wait_until(lambda: s.descriptors() <= before), f"descriptors: {before} became {s.descriptors()}")
            check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
