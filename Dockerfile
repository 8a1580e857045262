# Built from source, small, not run as root.
#   docker build -t mediary .
#   docker run -p 8080:8080 -v mediary:/var/lib/mediary -e MEDIARY_PUBLIC_URL=http://localhost:8080 mediary
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked && strip target/release/mediary

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home mediary && install -d -o mediary -m 0700 /var/lib/mediary
COPY --from=build /src/target/release/mediary /usr/local/bin/mediary
USER mediary
ENV MEDIARY_LISTEN=0.0.0.0:8080 MEDIARY_DATA_DIR=/var/lib/mediary MEDIARY_LOG__FORMAT=json
VOLUME /var/lib/mediary
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/mediary"]
CMD ["serve"]
