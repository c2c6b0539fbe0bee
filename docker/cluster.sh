#!/bin/sh
# Makes one cluster of the nodes HOST:PORT ..., all primaries, the slots shared evenly; ends when each of them says that
# the cluster is whole.
#
#   echomq-cluster HOST:PORT HOST:PORT HOST:PORT [...]
#
# May be run any number of times, also after a run that was cut short: what is there already stays as it is, and where all
# slots have their node, none is given. HOST must be an address that the nodes know each other by. The password is that of
# the nodes, from the same variables.
# Does not: move slots, forget nodes, make replicas, or take a node that holds keys but no slots.
set -eu
. /usr/local/lib/echomq/node.sh

SLOTS=16384
PATIENCE_S=60

[ $# -ge 3 ] || die 'usage: echomq-cluster HOST:PORT HOST:PORT HOST:PORT [...]'
read_password
[ -z "$password" ] || export REDISCLI_AUTH="$password"

# ask HOST:PORT COMMAND...; says why and ends on an error, waits for a node that does not answer yet.
ask() {
  peer=$1
  shift
  while :; do
    reply=$(valkey-cli -h "${peer%:*}" -p "${peer##*:}" "$@" 2>&1) || :
    case $reply in
      'Could not connect'* | LOADING*)
        [ "$(date +%s)" -lt "$end" ] || die "$peer does not answer: $reply"
        sleep 0.1
        ;;
      ERR* | NOAUTH* | NOPERM* | DENIED* | WRONGPASS* | AUTH*) die "$peer: $*: $reply" ;;
      *) break ;;
    esac
  done
  printf '%s\n' "$reply" | tr -d '\r'
}

end=$(($(date +%s) + PATIENCE_S))
first=$1
count=$#
at=0
whole=no
case $(ask "$first" CLUSTER INFO) in
  *cluster_slots_assigned:$SLOTS*) whole=yes ;;
esac
for node; do
  from=$((SLOTS * at / count))
  at=$((at + 1))
  to=$((SLOTS * at / count - 1))
  known=$(ask "$node" CLUSTER NODES)
  # A node's own line ends with its slots.
  if [ "$whole" = no ] && [ "$(printf '%s\n' "$known" | grep myself | wc -w)" -le 8 ]; then
    [ "$(ask "$node" DBSIZE)" = 0 ] || die "$node holds keys but no slots: empty it, or leave it out"
    ask "$node" CLUSTER ADDSLOTSRANGE "$from" "$to" >/dev/null
    # Different epochs from the start, so that the nodes need not sort them out; only a node that is alone takes one.
    [ "$(printf '%s\n' "$known" | wc -l)" -gt 1 ] || ask "$node" CLUSTER SET-CONFIG-EPOCH "$at" >/dev/null
  fi
  [ "$node" = "$first" ] || ask "$first" CLUSTER MEET "${node%:*}" "${node##*:}" >/dev/null
done

for node; do
  until
    info=$(ask "$node" CLUSTER INFO)
    echo "$info" | grep -qx cluster_state:ok &&
      [ "$(echo "$info" | sed -n 's/^cluster_known_nodes://p')" -ge "$count" ]
  do
    [ "$(date +%s)" -lt "$end" ] || die "$node: the cluster is not whole: $info"
    sleep 0.1
  done
done
say "a cluster of $count nodes: $*"
