# Small image, built from source, that does not run as root.
#   docker build --build-arg BUILD_COMMIT=$(git rev-parse --short=12 HEAD) -t mediary .
#   docker run --stop-timeout 60 -p 8080:8080 -v mediary:/var/lib/mediary -e MEDIARY_PUBLIC_URL=http://localhost:8080 --name mediary mediary
#   docker exec mediary cat /var/lib/mediary/admin-token
# If other containers use another host name, add it: -e MEDIARY_ALLOWED_HOSTS=mediary. See docs/deployment.md.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# The commit that `mediary --version` shows. The image build does not use git to find it.
ARG BUILD_COMMIT=
RUN cargo build --release --locked --bin mediary && strip target/release/mediary
# Licence notices of Mediary, of the libraries in the console and of all downloaded crates.
RUN mkdir -p /notices/crates && cp LICENSE-APACHE LICENSE-MIT docs/licences.md src/http/console/assets/vendor/LICENSE-* /notices/ \
    && cd "$CARGO_HOME"/registry/src/*/ && find . -mindepth 2 -maxdepth 2 -type f \
        -iregex '.*/\(un\|\)\(licen[cs]e\|copying\|copyright\|notice\)[^/]*' -exec cp --parents {} /notices/crates/ \;

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 mediary && useradd --system --uid 10001 --gid 10001 --no-create-home mediary \
    && install -d -o mediary -g mediary -m 0700 /var/lib/mediary
COPY --from=build /notices /usr/share/doc/mediary
COPY --from=build /src/target/release/mediary /usr/local/bin/mediary
# mediary.toml is read from the working directory.
WORKDIR /etc/mediary
# Numeric, so that Kubernetes can verify runAsNonRoot.
USER 10001:10001
ENV MEDIARY_LISTEN=0.0.0.0:8080 MEDIARY_DATA_DIR=/var/lib/mediary MEDIARY_LOG__FORMAT=json MEDIARY_EGRESS__PRIVATE=deny
VOLUME /var/lib/mediary
EXPOSE 8080
STOPSIGNAL SIGTERM
# A start that replays a long log takes minutes.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10m CMD ["/usr/local/bin/mediary", "health"]
ENTRYPOINT ["/usr/local/bin/mediary"]
CMD ["serve"]
