"""Servers to measure in: each runs one module, in a directory of its own."""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

KEY = "filter"
# What modules call the rate that filters get when an add creates them.
RATE_OPTIONS = ("error-rate", "fp-rate")
# Of a filter that an add makes.
DEFAULT_CAPACITY = 100


def machine(server):
    """What the figures were measured on."""
    version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    processors = Path("/proc/cpuinfo")
    models = [line for line in processors.read_text().splitlines() if "model name" in line] if processors.exists() else []
    model = models[0].split(":")[1].strip() if models else platform.processor()
    return {
        "server": " ".join(version.split()[:3]),
        "allocator": next(word.removeprefix("malloc=") for word in version.split() if word.startswith("malloc=")),
        "processor": f"{os.cpu_count()} x {model}",
        "system": f"{platform.system()} {platform.release()}",
        "day": time.strftime("%Y-%m-%d"),
    }


class Server:
    """A server of a module's, or without a module a plain one."""

    def __init__(self, options, module, *settings):
        self.options, self.settings = options, settings
        self.module = module.split(",") if module else []
        self.dir = Path(tempfile.mkdtemp(prefix="measure-"))
        self.start()

    def start(self):
        """Starts it; gives the seconds until it answers."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        module = []
        if self.module:
            path, *arguments = self.module
            module = ["--loadmodule", os.path.abspath(path), *arguments]
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [self.options.server, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.dir)]
            + ["--save", "", "--appendonly", "no", *self.settings, *module],
            stdout=(self.dir / "log").open("w"),
            stderr=subprocess.STDOUT,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=600)
        while True:
            try:
                self.client.ping()
                seconds = time.perf_counter() - begin
                self.lift_limits()
                return seconds
            except (redis.ConnectionError, redis.BusyLoadingError):
                if self.process.poll() is not None:
                    sys.exit((self.dir / "log").read_text())
                time.sleep(0.005)

    def lift_limits(self):
        """valkey-bloom 1.0 refuses filters of more than 128 MiB unless it is told otherwise; 0.1 makes filters for 100,000
        items."""
        for name in self.client.config_get("*bloom-memory-usage-limit"):
            self("CONFIG", "SET", name, 2**40)
        for name in self.client.config_get("*bloom-max-item-size"):
            self("CONFIG", "SET", name, DEFAULT_CAPACITY)

    def begin(self, rate):
        """Makes the filter that an add would make: by one with a setting of the rate, or reserved for 100 items, where
        the module has other defaults."""
        names = [name for option in RATE_OPTIONS for name in self.client.config_get(f"*{option}")]
        if names:
            self("CONFIG", "SET", names[0], rate)
        else:
            self("BF.RESERVE", KEY, rate, DEFAULT_CAPACITY)

    def __call__(self, *command):
        return self.client.execute_command(*command)

    def knows(self, command):
        """Whether it has the command, which mostly takes more than a key."""
        try:
            self(command, KEY)
            return True
        except redis.ResponseError as error:
            return not str(error).startswith("unknown command ")

    def version(self):
        """The number that the module gives as its version."""
        return next((int(of[b"ver"]) for of in self.client.module_list() if of[b"name"] == b"bf"), None)

    def seconds(self, *command):
        """How long a command takes, and its reply."""
        begin = time.perf_counter()
        reply = self(*command)
        return time.perf_counter() - begin, reply

    def info(self, section, name):
        return self.client.info(section)[name]

    def processor_seconds(self):
        """What all of its threads have used so far."""
        cpu = self.client.info("cpu")
        return cpu["used_cpu_user"] + cpu["used_cpu_sys"]

    def memory_usage(self, key=KEY):
        return self("MEMORY", "USAGE", key, "SAMPLES", 0)

    def used_memory(self):
        """What it accounts for, once it has freed the connections that are closed. It asks in a new one, since servers
        shrink the buffers of those that are idle."""
        self.client.connection_pool.disconnect()
        while self.info("clients", "connected_clients") > 1:
            time.sleep(0.001)
        return self.info("memory", "used_memory")

    def seconds_of_loading(self):
        """What it took to load its file when it started, as it says itself."""
        [seconds] = re.findall(r"DB loaded from disk: ([\d.]+) seconds", (self.dir / "log").read_text())
        return float(seconds)

    def log_bytes(self):
        """The size of its append-only file."""
        return sum(path.stat().st_size for path in self.dir.rglob("*") if "aof" in path.name and path.is_file())

    def stop(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Together:
    """A server for each module."""

    def __init__(self, options, modules, *settings):
        self.servers = {}
        try:
            for name, module in modules.items():
                self.servers[name] = Server(options, module, *settings)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self.servers

    def __exit__(self, *_):
        for server in self.servers.values():
            server.remove()


def at_the_same_time(servers, work):
    """Does something with all servers at once: for what is not timed."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(servers, pool.map(work, servers.values())))
