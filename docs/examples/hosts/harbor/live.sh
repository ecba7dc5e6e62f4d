#!/bin/sh
# A database that the environment reaches by URL: read when the agent starts, and when it is done.
rm -f shop.db
python -c "
import sqlite3
shop = sqlite3.connect('shop.db')
shop.execute('create table ticket (id integer primary key, status text)')
shop.execute('insert into ticket values (7, \'open\'), (8, \'open\')')
shop.commit()"
states="states={\"db\": \"sqlite:///$PWD/shop.db\"}"
harbor run -q -p task --env rooted:Rooted --jobs-dir jobs --job-name live \
  -a agents:Scripted --agent-kwarg "does=$1" --agent-kwarg "shop=$PWD/shop.db" \
  --plugin statediff --plugin-kwarg contract=close-ticket.yaml --plugin-kwarg "$states" \
  --verifier statediff_hosts.harbor:StatediffVerifier \
  --verifier-kwarg contract=tests/contract.yaml --verifier-kwarg "$states" >live.log 2>&1
