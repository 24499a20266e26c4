# A server with the module, on an official image of Redis or Valkey:
#
#   docker build -t redis-libbloom .
#   docker build -t valkey-libbloom --build-arg BASE=valkey/valkey:8.1-bookworm .
#   docker run --rm -p 127.0.0.1:6379:6379 -v bloom:/data redis-libbloom
#
# The base has Debian 12 or later: the module is built on Debian 12, and needs no older glibc.
ARG BASE=redis:7.4-bookworm
ARG RUST=1.95-bookworm

# hadolint ignore=DL3006
FROM rust:${RUST} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY core core
COPY rdb rdb
COPY src src
COPY benches benches
COPY fuzz fuzz
# cargo looks for the file of every target that Cargo.toml names, whichever is built.
COPY examples/sizes.rs examples/
RUN cargo build --release --lib --package bloom --locked && strip --strip-unneeded target/release/libbloom.so

# hadolint ignore=DL3006
FROM ${BASE}
COPY --from=build --chmod=755 /build/target/release/libbloom.so /usr/lib/redis/modules/libbloom.so
COPY --chmod=644 packaging/bloom.conf /etc/libbloom/bloom.conf
COPY --chmod=644 LICENSE /usr/share/doc/libbloom/LICENSE
# Redis 8's image loads each module of this folder. RedisBloom has this module's name, and a server takes one of the two.
RUN rm -f /usr/local/lib/redis/modules/redisbloom.so
# Alive is what answers, be it with an error: a server that wants a password, that loads its data, that runs a
# long script or that could not save is not mended by a restart, which would lose data or begin the load again.
# (That it reaches no server redis-cli writes to standard error.) What asks whether the data is there must ask
# the server itself.
HEALTHCHECK --interval=10s --timeout=3s \
    CMD ["sh", "-c", "\"$(command -v redis-cli || command -v valkey-cli)\" ping | grep -q ."]
# No USER: the base's entry point starts as root, gives /data to the server's user and becomes that user. It puts
# the name of its server before arguments that begin with a dash.
CMD ["--include", "/etc/libbloom/bloom.conf"]
