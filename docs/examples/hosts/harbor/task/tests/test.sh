#!/bin/sh
# What Harbor runs in the environment where no other verifier is named.
statediff judge /tests/contract.yaml --before /tests/before.json --after /app/app.json \
  --reward /logs/verifier/reward.json --out /logs/verifier/statediff --quiet
