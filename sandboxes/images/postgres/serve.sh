#!/bin/sh
# The server, over a data folder that is unpacked here unless there is one.
set -e
data=/var/lib/statediff
[ -e "$data/PG_VERSION" ] || tar -C "$data" -b 1024 -xf /usr/share/statediff/data.tar
exec /usr/lib/postgresql/15/bin/postgres -D "$data"
