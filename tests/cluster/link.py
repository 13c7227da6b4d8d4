"""TCP relays between a node and the NATS servers. `cut` stops all bytes in both directions, as an unplugged cable does."""

import socket
import threading

CHUNK_BYTES = 1 << 16


class Link:
    """One relay for each port. The connections stay open while the link is cut, and the bytes that wait travel after `join`."""

    def __init__(self, ports):
        self.is_joined = threading.Event()
        self.is_joined.set()
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in ports]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]
        for listener, port in zip(self.listeners, ports):
            threading.Thread(target=self.accept, args=(listener, port), daemon=True).start()

    def cut(self):
        self.is_joined.clear()

    def join(self):
        self.is_joined.set()

    def accept(self, listener, port):
        while True:
            client, _ = listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                client.close()
                continue
            for source, target in ((client, server), (server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.relay, args=(source, target), daemon=True).start()

    def relay(self, source, target):
        try:
            while data := source.recv(CHUNK_BYTES):
                self.is_joined.wait()
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
