# Built from source, small, not run as root.
#   docker build --build-arg BUILD_COMMIT=$(git rev-parse --short=12 HEAD) -t mediary .
#   docker run --stop-timeout 60 -p 8080:8080 -v mediary:/var/lib/mediary -e MEDIARY_PUBLIC_URL=http://localhost:8080 --name mediary mediary
#   # Other containers name it by another host: -e MEDIARY_ALLOWED_HOSTS=mediary
#   docker exec mediary cat /var/lib/mediary/admin-token
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# What `mediary --version` names: the sources that are copied here do not tell.
ARG BUILD_COMMIT=
RUN cargo build --release --locked && strip target/release/mediary
# Notices of what is inside: ours, those of the console's parts, and those of all crates as they were downloaded.
RUN mkdir -p /notices/crates && cp LICENSE-APACHE LICENSE-MIT docs/licences.md src/http/console/assets/vendor/LICENSE-* /notices/ \
    && cd "$CARGO_HOME"/registry/src/*/ && find . -mindepth 2 -maxdepth 2 -type f \
        -iregex '.*/\(un\|\)\(licen[cs]e\|copying\|copyright\|notice\)[^/]*' -exec cp --parents {} /notices/crates/ \;

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 mediary && useradd --system --uid 10001 --gid 10001 --no-create-home mediary \
    && install -d -o mediary -g mediary -m 0700 /var/lib/mediary
COPY --from=build /notices /usr/share/doc/mediary
COPY --from=build /src/target/release/mediary /usr/local/bin/mediary
# Where mediary.toml is looked for.
WORKDIR /etc/mediary
# By number, so that an orchestrator sees that it is not root.
USER 10001:10001
ENV MEDIARY_LISTEN=0.0.0.0:8080 MEDIARY_DATA_DIR=/var/lib/mediary MEDIARY_LOG__FORMAT=json MEDIARY_EGRESS__PRIVATE=deny
VOLUME /var/lib/mediary
EXPOSE 8080
STOPSIGNAL SIGTERM
# A start that reads a long log is not ready for a while.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10m CMD ["/usr/local/bin/mediary", "health"]
ENTRYPOINT ["/usr/local/bin/mediary"]
CMD ["serve"]
