# A server with the module, on an official image of Redis or Valkey:
#
#   docker build -t redis-libbloom .
#   docker build -t valkey-libbloom --build-arg BASE=valkey/valkey:8.1-bookworm --build-arg SERVER=valkey-server .
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
COPY src src
COPY benches benches
# cargo looks for the file of every target that Cargo.toml names, whichever is built.
COPY examples/sizes.rs examples/
RUN cargo build --release --lib --locked && strip --strip-unneeded target/release/libbloom.so

# hadolint ignore=DL3006
FROM ${BASE}
ARG SERVER=redis-server
# The name is fixed for what starts the server, whichever it is.
ENV SERVER=${SERVER}
COPY --from=build --chmod=755 /build/target/release/libbloom.so /usr/lib/redis/modules/libbloom.so
COPY --chmod=644 packaging/bloom.conf /etc/libbloom/bloom.conf
COPY --chmod=644 LICENSE /usr/share/doc/libbloom/LICENSE
WORKDIR /data
# The users of both images, by the number that both have.
USER 999:999
EXPOSE 6379
# Alive is what answers, be it with an error: a server that wants a password, that loads its data, that runs a
# long script or that could not save is not mended by a restart, which would lose data or begin the load again.
# (That it reaches no server redis-cli writes to standard error.) What asks whether the data is there must ask
# the server itself.
HEALTHCHECK --interval=10s --timeout=3s \
    CMD ["sh", "-c", "\"${SERVER%-server}-cli\" ping | grep -q ."]
# The images' own entry point starts what it is given, as the user that it is started as. The form with a shell
# is needed for the variable; exec leaves the server as the first process, which gets the signals.
CMD ["sh", "-c", "exec \"$SERVER\" --include /etc/libbloom/bloom.conf --protected-mode no --dir /data"]
