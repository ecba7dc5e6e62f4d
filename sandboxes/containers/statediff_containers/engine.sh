#!/usr/bin/env bash
# Brings a Debian machine to a running Docker engine, and to a base image of its own where no
# registry of images can be reached.
#
#   engine.sh up     the engine answers; installed and started if need be (as root)
#   engine.sh base   the image statediff-base:bookworm is there; made from Debian's packages (as root)
#   engine.sh down   the engine that `up` started has ended, by its pid; any other is left alone
#
# Each can be called again: what is there already is left as it is. A second engine is never started.
set -euo pipefail
exec </dev/null

STATE="${STATEDIFF_ENGINE_STATE:-/var/lib/statediff-engine}"
PIDFILE="$STATE/dockerd.pid"
LOG="$STATE/dockerd.log"
BASE=statediff-base:bookworm
WAIT_SECONDS=60

fail() { echo "error: $*" >&2; exit 1; }

answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

need_packages() {
  local missing=() entry
  for entry in "$@"; do command -v "${entry%%=*}" >/dev/null || missing+=("${entry##*=}"); done
  [ "${#missing[@]}" -eq 0 ] && return
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null ||
    fail "missing: ${missing[*]}. Install them, or run as root on Debian or Ubuntu"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# The process that the pid file names, if it is an engine: a pid alone may be another's by now.
ours() {
  local pid
  [ -s "$PIDFILE" ] && pid="$(cat "$PIDFILE")" && [ -n "$pid" ] &&
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && echo "$pid"
}

up() {
  if command -v docker >/dev/null && answers; then return; fi
  [ -z "${DOCKER_HOST:-}" ] || fail "DOCKER_HOST names an engine that does not answer; unset it, or start that one"
  need_packages dockerd=docker.io docker=docker.io iptables pgrep=procps
  # An engine that somebody started a moment ago, the package for one, answers soon; two would ruin
  # each other's network.
  if pgrep -x dockerd >/dev/null; then
    await "$(pgrep -o -x dockerd)"
    return
  fi
  [ "$(id -u)" -eq 0 ] || fail "only root can start the engine; or have it started, e.g. by systemctl start docker"
  mkdir -p "$STATE"
  rm -f "$PIDFILE"
  setsid dockerd -p "$PIDFILE" >"$LOG" 2>&1 &
  await $!
}

await() {
  local deadline=$((SECONDS + WAIT_SECONDS))
  until answers; do
    kill -0 "$1" 2>/dev/null || { tail -n 5 "$LOG" >&2 2>/dev/null; fail "the engine ended; its log: $LOG"; }
    [ "$SECONDS" -lt "$deadline" ] || fail "the engine does not answer within $WAIT_SECONDS s; its log: $LOG"
    sleep 0.2
  done
}

down() {
  local pid deadline=$((SECONDS + WAIT_SECONDS))
  pid="$(ours)" || return 0
  kill "$pid"
  while kill -0 "$pid" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || fail "the engine, process $pid, has not ended within $WAIT_SECONDS s"
    sleep 0.2
  done
  rm -f "$PIDFILE"
}

base() {
  answers || fail "no engine answers; first: $0 up"
  if docker image inspect "$BASE" >/dev/null 2>&1; then return; fi
  need_packages debootstrap
  [ "$(id -u)" -eq 0 ] || fail "only root can make the base image"
  # Not local: the trap outlives this function.
  tree="$(mktemp -d)"
  trap 'rm -rf "$tree"' EXIT
  # Packages come from where this machine itself has them from; debootstrap has a default of its own.
  local sources mirror
  sources="$(sources_of)"
  mirror="$(awk '$2 == "bookworm" {print $1; exit}' <<<"$sources")"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$tree/system" ${mirror:+"$mirror"} >"$tree/log" 2>&1 ||
    { tail -n 5 "$tree/log" >&2; fail "debootstrap failed"; }
  [ -z "$sources" ] || sed 's/^/deb /; s/$/ main/' <<<"$sources" >"$tree/system/etc/apt/sources.list"
  settings_of >"$tree/system/etc/apt/apt.conf.d/90statediff"
  (cd "$tree/system" && rm -rf var/lib/apt/lists/* var/cache/apt/*.bin var/cache/apt/archives/*.deb \
    var/log/* usr/share/doc/* usr/share/man/* usr/share/locale/* usr/share/info/*)
  tar -C "$tree/system" -c . | docker import --change 'CMD ["bash"]' - "$BASE" >/dev/null
}

# The lines `URI SUITE` that apt on this machine uses for bookworm, its updates and its security.
sources_of() {
  command -v apt-get >/dev/null || return 0
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$3 ~ /^bookworm/ && $4 == "main" {print $1, $3}' | sort -u
}

# Proxies and the like, so that builds reach packages as this machine does.
settings_of() {
  apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Retries)\b' || true
}

case "${1:-}" in
  up) up ;;
  base) base ;;
  down) down ;;
  *) fail "expected up, base or down" ;;
esac
