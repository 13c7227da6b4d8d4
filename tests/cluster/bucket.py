"""A bucket with the part of the API of S3 that Parallax uses: GET with `If-None-Match` and `Range`, PUT with `If-Match`."""

import hashlib
import http.server
import threading


class Bucket:
    def __init__(self):
        objects, lock = {}, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with lock:
                    content = objects.get(self.path)
                if content is None:
                    return self.answer(404)
                tag = '"' + hashlib.md5(content).hexdigest() + '"'
                if self.headers["If-None-Match"] == tag:
                    return self.answer(304, tag=tag)
                if not (wanted := self.headers["Range"]):
                    return self.answer(200, content, tag)
                first, last = map(int, wanted.removeprefix("bytes=").split("-"))
                part = content[first : last + 1]
                self.answer(206, part, tag, f"bytes {first}-{first + len(part) - 1}/{len(content)}")

            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    present = objects.get(self.path)
                    tag = present and '"' + hashlib.md5(present).hexdigest() + '"'
                    if self.headers["If-Match"] not in (None, tag) or (self.headers["If-None-Match"] and present):
                        return self.answer(412)
                    objects[self.path] = body
                self.answer(200, tag='"' + hashlib.md5(body).hexdigest() + '"')

            def answer(self, status, body=b"", tag=None, part=None):
                self.send_response(status)
                for name, value in (("ETag", tag), ("Content-Range", part)):
                    if value:
                        self.send_header(name, value)
                self.send_header("Last-Modified", "Tue, 24 Nov 2026 10:00:00 GMT")
                if status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self):
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_port}",
            "AWS_REGION": "eu-north-1",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "a secret key",
        }

    def stop(self):
        self.server.shutdown()
