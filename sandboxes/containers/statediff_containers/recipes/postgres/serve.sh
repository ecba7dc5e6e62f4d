#!/bin/sh
# The server, over a data folder that is unpacked here unless there is one.
set -e
data=/var/lib/statediff/data
if [ ! -e "$data" ]; then
	mkdir -m 700 "$data"
	tar -C "$data" -b 1024 -xf /usr/share/statediff/data.tar
fi
exec /usr/lib/postgresql/15/bin/postgres -D "$data"
