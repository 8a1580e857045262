#!/usr/bin/env bash
# PostgreSQL as an event store, for benches/registry/writes.rs: a temporary cluster in the directory $CLUSTER.
#
#   CLUSTER=DIR postgres.sh start            creates and starts the cluster; exits 3 if PostgreSQL is not installed
#   CLUSTER=DIR postgres.sh run CLIENTS SECONDS    inserts events, one a commit; prints commits a second
#   CLUSTER=DIR postgres.sh stop             stops the cluster
#
# Every commit is synced (fsync and synchronous_commit are on, as they are by default). A row has the size of an event,
# and (stream, version) is unique, as an event store requires.
set -euo pipefail
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
[ -x "${bin:-}/postgres" ] || { echo "Install it (Debian: apt-get install postgresql) and run this again." >&2; exit 3; }
data="$CLUSTER/data"

as_owner() { # PostgreSQL does not run as root
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}
start() {
    chmod 755 "$CLUSTER"
    mkdir "$data"
    if [ "$(id -u)" = 0 ]; then chown postgres "$CLUSTER" "$data"; fi
    as_owner "$bin/initdb" --pgdata "$data" --username bench --auth trust --no-instructions >/dev/null
    cat >>"$data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$CLUSTER'
fsync = on
synchronous_commit = on
max_connections = 600
shared_buffers = 512MB
min_wal_size = 2GB
max_wal_size = 8GB
CONF
    as_owner "$bin/pg_ctl" --pgdata "$data" --log "$CLUSTER/log" --wait start >/dev/null
    as_owner "$bin/psql" -h "$CLUSTER" -U bench -d postgres -q -c "
        CREATE TABLE events (position bigserial PRIMARY KEY, stream text NOT NULL, version integer NOT NULL,
                             at timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL, UNIQUE (stream, version));"
    cat >"$CLUSTER/insert.sql" <<'SQL'
\set v :v + 1
INSERT INTO events (stream, version, body)
    VALUES ('node/bench-' || :client_id || '-' || (:v % 4), :v / 4, decode(repeat('a5', 350), 'hex'));
SQL
    # Create the WAL segments now: measured runs recycle them, as in a database that has run for a while.
    run 32 4 >/dev/null
}
run() { # $1: clients, $2: seconds
    as_owner "$bin/psql" -h "$CLUSTER" -U bench -d postgres -q -c "TRUNCATE events RESTART IDENTITY" -c CHECKPOINT
    local threads=$(($1 < 2 ? 1 : 2))
    as_owner "$bin/pgbench" -h "$CLUSTER" -U bench -n -M prepared -c "$1" -j "$threads" -T "$2" -D v=0 \
        -f "$CLUSTER/insert.sql" postgres | sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
stop() { as_owner "$bin/pg_ctl" --pgdata "$data" --mode fast --wait stop >/dev/null; }

"$@"
